package cmd

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/testenv"
)

var errStillThere = errors.New("still there")

// webhookOf lets the API server call the manager on this machine by the name of the Service, for one namespace only.
func webhookOf(t *testing.T, c client.Client, namespace string, port int) {
	t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: testenv.OperatorNamespace, Name: webhookService},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}
	hook := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: webhookConfiguration},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    "webapps.apps.fettle.dev",
			FailurePolicy:           new(admissionregistrationv1.Fail),
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{
				Namespace: testenv.OperatorNamespace, Name: webhookService,
				Path: new("/validate-apps-fettle-dev-v1-webapp"), Port: new(int32(port)),
			}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{appsv1.GroupVersion.Group}, APIVersions: []string{"v1"}, Resources: []string{"webapps"},
				},
			}},
		}},
	}
	for _, object := range []client.Object{service, hook} {
		createAll(t, c, object)
		t.Cleanup(func() {
			if err := c.Delete(t.Context(), object); client.IgnoreNotFound(err) != nil && t.Context().Err() == nil {
				t.Error(err)
			}
		})
	}
}

func TestSelfSignedCertificates(t *testing.T) {
	c, namespace := newAdmin(t), env.Namespace(t)
	install(t, c, "default", "self_signed_certs.yaml")
	address, dir := freeAddress(t), filepath.Join(t.TempDir(), "certs")
	webhookOf(t, c, namespace, portOf(t, address))
	p := &appsv1.WebAppPolicy{ObjectMeta: metav1.ObjectMeta{Name: "self-signed-" + namespace}, Spec: appsv1.WebAppPolicySpec{
		NamespaceSelector: metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
		Action:            appsv1.ActionEnforce, MaxReplicas: new(int32(0)),
	}}
	createAll(t, c, p)
	app := &appsv1.WebApp{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}, Spec: appsv1.WebAppSpec{Image: "nginx"}}
	if err := c.Create(t.Context(), app.DeepCopy()); !apierrors.IsInternalError(err) {
		t.Fatalf("create without a webhook server: %v, want an internal error", err)
	}

	flags := []string{"--webhook-certs=self-signed", "--webhook-cert-dir=" + dir, fmt.Sprintf("--webhook-port=%d", portOf(t, address))}
	manager := startManager(t, flags...)
	manager.waitReady(t)
	eventually(t, "the API server trusts the webhook", func() error {
		if err := c.Create(t.Context(), app.DeepCopy()); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), p.Name) {
			return fmt.Errorf("create: %w, want a rejection by the policy", err)
		}
		return nil
	})
	secret := emptySecret(testenv.OperatorNamespace, certificateSecret)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
		t.Fatal(err)
	}
	for _, key := range append([]string{"ca.crt", "ca.key"}, certificateFiles...) {
		if len(secret.Data[key]) == 0 {
			t.Errorf("the Secret has no %s", key)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "tls.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("tls.key: %v, %v; want it readable by the operator alone", info, err)
	}
	authority := string(secret.Data["ca.crt"])
	manager.stop(t)

	// A second start, as after an upgrade: the same CA, and ready without a new certificate.
	again := startManager(t, flags...)
	again.waitReady(t)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil || string(secret.Data["ca.crt"]) != authority {
		t.Errorf("the CA changed with a restart (%v)", err)
	}
	loseCA(t, c, app)
	again.stop(t)
}

// loseCA empties the Secret and the webhook configuration as another client: both are restored.
func loseCA(t *testing.T, c client.Client, app *appsv1.WebApp) {
	t.Helper()
	secret := emptySecret(testenv.OperatorNamespace, certificateSecret)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
		t.Fatal(err)
	}
	secret.Data = nil
	if err := c.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	hook := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: webhookConfiguration}, hook); err != nil {
		t.Fatal(err)
	}
	hook.Webhooks[0].ClientConfig.CABundle = nil
	if err := c.Update(t.Context(), hook); err != nil && !apierrors.IsConflict(err) {
		t.Fatal(err)
	}
	eventually(t, "the webhook is trusted again", func() error {
		if err := c.Create(t.Context(), app.DeepCopy()); !apierrors.IsInvalid(err) {
			return err
		}
		return nil
	})
}

func TestReadiness_waitsForCertificate(t *testing.T) {
	// The namespace has no Secret of this name, so no certificate can be created.
	t.Setenv("POD_NAMESPACE", env.Namespace(t))
	manager := startManager(t, "--webhook-certs=self-signed", "--webhook-cert-dir="+t.TempDir(), fmt.Sprintf("--webhook-port=%d", portOf(t, freeAddress(t))))
	select {
	case <-manager.ended:
		if manager.err == nil {
			t.Error("the manager exited without an error and without a certificate")
		}
	case <-time.After(waitTimeout):
		if err := get(t, "http://"+manager.health+"/readyz", "", http.StatusOK); err == nil {
			t.Error("the manager is ready without a certificate")
		}
	}
}
