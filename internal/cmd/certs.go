package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Objects of the installation for --webhook-certs=self-signed; config/default contains them.
const (
	certificateSecret    = "fettle-webhook-cert"
	webhookService       = "fettle-controller-manager-service"
	webhookConfiguration = "fettle-validating-webhooks"
)

// certificateFiles are the keys of the Secret that become files for the webhook server. The certificate is last: when it exists, the key
// exists too.
var certificateFiles = []string{"tls.key", "tls.crt"}

// addCertificates makes the operator its own CA. It creates the CA and the webhooks' certificate, keeps them in a Secret, and renews them
// 90 days before they expire. It writes the certificate to dir and the CA into the webhook configuration. Every replica does so; the
// Secret's resourceVersion decides which one is first. The channel is closed when the certificate is in dir and the webhook configuration
// has the CA.
func addCertificates(mgr manager.Manager, namespace, dir string) (<-chan struct{}, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("folder of --webhook-cert-dir, mount an emptyDir there: %w", err)
	}
	secret := types.NamespacedName{Namespace: namespace, Name: certificateSecret}
	if err := addCertificateFiles(mgr, secret, dir); err != nil {
		return nil, err
	}
	host := webhookService + "." + namespace + ".svc"
	ready := make(chan struct{})
	err := rotator.AddRotator(mgr, &rotator.CertRotator{
		SecretKey:            secret,
		CertDir:              dir,
		CAName:               "fettle-webhooks",
		CAOrganization:       "fettle.dev",
		DNSName:              host,
		ExtraDNSNames:        []string{host + ".cluster.local"},
		IsReady:              ready,
		Webhooks:             []rotator.WebhookInfo{{Name: webhookConfiguration, Type: rotator.Validating}},
		FieldOwner:           "fettle-certificates",
		EnableReadinessCheck: true, // the API server trusts the new CA after its first certificate exists
	})
	if err != nil {
		return nil, fmt.Errorf("certificate rotation: %w", err)
	}
	return ready, nil
}

// addCertificateFiles writes the Secret to dir. A mount of the Secret would be up to a minute late, and would require a certificate before
// the first start.
func addCertificateFiles(mgr manager.Manager, secret types.NamespacedName, dir string) error {
	only, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(),
		Mapper: mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {
			Namespaces: map[string]cache.Config{secret.Namespace: {}},
			Field:      fields.OneTermEqualSelector("metadata.name", secret.Name),
		}},
	})
	if err != nil {
		return fmt.Errorf("watch Secret %s: %w", secret, err)
	}
	return mgr.Add(onEveryReplica(func(ctx context.Context) error {
		informer, err := only.GetInformer(ctx, &corev1.Secret{}, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch Secret %s: %w", secret, err)
		}
		write := func(object any) {
			found, ok := object.(*corev1.Secret)
			if !ok {
				return
			}
			if err := writeCertificate(found, dir); err != nil {
				mgr.GetLogger().Error(err, "cannot use the webhooks' certificate", "secret", secret, "folder", dir)
			}
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    write,
			UpdateFunc: func(_, object any) { write(object) },
		})
		if err != nil {
			return fmt.Errorf("watch Secret %s: %w", secret, err)
		}
		return only.Start(ctx)
	}))
}

// writeCertificate does nothing if the Secret is empty or the files are up to date. It replaces each file atomically. The webhook server
// retries if the certificate does not match the key.
func writeCertificate(secret *corev1.Secret, dir string) error {
	var errs []error
	for _, name := range certificateFiles {
		content, path := secret.Data[name], filepath.Join(dir, name)
		if len(content) == 0 {
			return nil
		}
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
			continue
		}
		errs = append(errs, replaceFile(path, content))
	}
	return errors.Join(errs...)
}

func replaceFile(path string, content []byte) error {
	next := path + ".new"
	if err := os.WriteFile(next, content, 0o600); err != nil {
		return err
	}
	return os.Rename(next, path)
}
