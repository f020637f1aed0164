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

// Objects of the installation that --webhook-certs=self-signed works with; config/default has them.
const (
	certificateSecret    = "fettle-webhook-cert"
	webhookService       = "fettle-controller-manager-service"
	webhookConfiguration = "fettle-validating-webhooks"
)

// certificateFiles are the keys of the Secret that become files for the webhook server. The certificate comes last: where
// it is, the key is too.
var certificateFiles = []string{"tls.key", "tls.crt"}

// addCertificates makes the operator its own certificate authority: the authority and the certificate of the webhooks
// are made, kept in a Secret, renewed 90 days before they end, and written to dir; the authority is written into the
// webhook configuration. Every replica does so, and the Secret's resourceVersion decides who was first. The channel is
// closed when the certificate is in dir and the API server knows its authority.
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
		EnableReadinessCheck: true, // the API server trusts the new authority once there is a certificate from it
	})
	if err != nil {
		return nil, fmt.Errorf("certificate rotation: %w", err)
	}
	return ready, nil
}

// addCertificateFiles keeps dir like the Secret. Mounting the Secret would do the same a minute later, and would need
// it to hold a certificate before the first start.
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
				mgr.GetLogger().Error(err, "the webhooks' certificate can't be used", "secret", secret, "folder", dir)
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

// writeCertificate does nothing while the Secret is empty, or the files are as they should be. Each file is replaced
// at once; the webhook server tries again when it sees a certificate that does not go with the key.
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
