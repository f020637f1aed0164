package docs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/fettle-dev/fettle/api"
	"github.com/fettle-dev/fettle/internal/stack"
	"github.com/fettle-dev/fettle/internal/webhook"
)

// foreign are kinds that examples may use and whose CRDs the API server of the tests does not have.
var foreign = []string{
	"Application.argoproj.io",
	"CatalogSource.operators.coreos.com",
	"Certificate.cert-manager.io",
	"ClusterIssuer.cert-manager.io",
	"Gateway.gateway.networking.k8s.io",
	"GitRepository.source.toolkit.fluxcd.io",
	"GrafanaDashboard.grafana.integreatly.org",
	"HTTPRoute.gateway.networking.k8s.io",
	"Issuer.cert-manager.io",
	"Kustomization.kustomize.config.k8s.io",
	"Kustomization.kustomize.toolkit.fluxcd.io",
	"OperatorGroup.operators.coreos.com",
	"PodMonitor.monitoring.coreos.com",
	"Prometheus.monitoring.coreos.com",
	"PrometheusRule.monitoring.coreos.com",
	"ServiceMonitor.monitoring.coreos.com",
	"Subscription.operators.coreos.com",
}

// guides are the pages of kinds, which start with three examples.
var guides = map[string]string{
	"docs/webapp.md": "WebApp", "docs/webapppolicy.md": "WebAppPolicy", "docs/appconfig.md": "AppConfig",
	"docs/voteconfig.md": "VoteConfig", "docs/postgresql.md": "PostgreSQL", "docs/backup.md": "Backup", "docs/restore.md": "Restore",
	"docs/appstack.md": "AppStack", "docs/ecommerceplatform.md": "EcommercePlatform",
}

// manifest is a complete object in a page.
type manifest struct {
	page   string
	line   int
	text   string
	object *unstructured.Unstructured
}

// TestManifestsAreAccepted creates every complete manifest of the pages by a dry run, and shows the result to Fettle's webhooks.
func TestManifestsAreAccepted(t *testing.T) {
	c, err := client.New(env.Admin, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	admission, namespace, counts := webhooks(t), env.Namespace(t), map[string]int{}
	for page, text := range pages(t) {
		for _, m := range manifests(t, page, text) {
			counts[page+" "+m.object.GetKind()]++
			if err := accept(t.Context(), c, admission, namespace, m.object); err != nil {
				t.Errorf("%s:%d: %s %s: %v", m.page, m.line, m.object.GetKind(), m.object.GetName(), err)
			}
		}
	}
	for page, kind := range guides {
		if counts[page+" "+kind] < 3 {
			t.Errorf("%s has %d complete manifests of a %s, want the simplest, a typical one and one for production", page, counts[page+" "+kind], kind)
		}
	}
}

// TestManifestsAreRejected holds that the other test notices an unknown field, a broken rule of the schema, a name that the webhook
// rejects, and a kind that is not listed.
func TestManifestsAreRejected(t *testing.T) {
	c, err := client.New(env.Admin, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	admission, namespace := webhooks(t), env.Namespace(t)
	for text, want := range map[string]string{
		"apiVersion: apps.fettle.dev/v1\nkind: WebApp\nmetadata: {name: a}\nspec: {image: nginx, replica: 3}":                                             `unknown field "spec.replica"`,
		"apiVersion: apps.fettle.dev/v1\nkind: WebApp\nmetadata: {name: a}\nspec: {image: nginx, replicas: -3}":                                           "spec.replicas",
		"apiVersion: database.fettle.dev/v1alpha1\nkind: PostgreSQL\nmetadata: {name: a}\nspec: {version: \"18\", storage: 1Gi, roles: [{name: select}]}": "rejected by the webhook",
		"apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: a}":                                                                                   "no matches for",
	} {
		found := manifests(t, "page.md", "1. An item:\n\n   ```yaml\n   "+strings.ReplaceAll(text, "\n", "\n   ")+"\n   ```\n")
		if len(found) != 1 || found[0].line != 4 {
			t.Fatalf("%s: found %+v", text, found)
		}
		if err := accept(t.Context(), c, admission, namespace, found[0].object); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// manifests are the documents with apiVersion and kind in the YAML blocks of a page. Other YAML is a part of a manifest.
func manifests(t *testing.T, page, text string) []manifest {
	t.Helper()
	var all []manifest
	current, inside := manifest{page: page}, false
	flush := func() {
		if strings.Contains("\n"+current.text, "\napiVersion:") {
			content := map[string]any{}
			if err := yaml.UnmarshalStrict([]byte(current.text), &content); err != nil {
				t.Errorf("%s:%d: %v", page, current.line, err)
			} else if content["kind"] != nil {
				current.object = &unstructured.Unstructured{Object: content}
				all = append(all, current)
			}
		}
		current.text = ""
	}
	number, indent := 0, ""
	for line := range strings.Lines(text) {
		number++
		trimmed := strings.TrimSpace(line)
		switch {
		case !inside && (trimmed == "```yaml" || strings.HasPrefix(trimmed, "```yaml ")):
			inside, current.line, indent = true, number+1, line[:strings.Index(line, "`")]
		case inside && (trimmed == "```" || trimmed == "---"):
			flush()
			inside, current.line = trimmed == "---", number+1
		case inside:
			current.text += strings.TrimPrefix(line, indent)
		}
	}
	return all
}

// accept creates an object by a dry run, with unknown fields as an error, and asks the webhook of its kind.
func accept(ctx context.Context, c client.Client, admission http.Handler, namespace string, object *unstructured.Unstructured) error {
	gvk := object.GroupVersionKind()
	mapping, err := c.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) && slices.Contains(foreign, gvk.GroupKind().String()) {
		return nil
	}
	if err != nil {
		return err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		object.SetNamespace(namespace)
	}
	if err := c.Create(ctx, object, client.DryRunAll, client.FieldValidation("Strict")); err != nil {
		return err
	}
	if !strings.HasSuffix(gvk.Group, "fettle.dev") {
		return nil
	}
	return admit(ctx, admission, mapping, object)
}

// admit sends what the API server would send to the webhook of a kind. A kind without a webhook is admitted.
func admit(ctx context.Context, admission http.Handler, mapping *meta.RESTMapping, object *unstructured.Unstructured) error {
	raw, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	gvk, resource := object.GroupVersionKind(), mapping.Resource
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "docs", Kind: metav1.GroupVersionKind(gvk), Resource: metav1.GroupVersionResource(resource), Operation: admissionv1.Create,
			Name: object.GetName(), Namespace: object.GetNamespace(), Object: runtime.RawExtension{Raw: raw},
		},
	})
	if err != nil {
		return err
	}
	path := "/validate-" + strings.ReplaceAll(gvk.Group, ".", "-") + "-" + gvk.Version + "-" + strings.ToLower(gvk.Kind)
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, path, bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	admission.ServeHTTP(answer, request)
	if answer.Code == http.StatusNotFound {
		return nil
	}
	review := admissionv1.AdmissionReview{}
	if err := json.Unmarshal(answer.Body.Bytes(), &review); err != nil || review.Response == nil {
		return fmt.Errorf("the webhook answers %d %s: %w", answer.Code, answer.Body, err)
	}
	if !review.Response.Allowed {
		return fmt.Errorf("rejected by the webhook: %s", review.Response.Result.Message)
	}
	return nil
}

// webhooks are Fettle's webhooks, with the cache of a manager that runs until the test ends.
func webhooks(t *testing.T) http.Handler {
	t.Helper()
	log.SetLogger(zap.New(zap.WriteTo(io.Discard)))
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, api.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	mgr, err := ctrl.NewManager(env.Operator, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = mgr.GetCache().Start(t.Context()) }()
	if err := webhook.Setup(t.Context(), mgr, stack.Options{}); err != nil {
		t.Fatal(err)
	}
	if !mgr.GetCache().WaitForCacheSync(t.Context()) {
		t.Fatal("the cache of the webhooks has no policies and namespaces")
	}
	return mgr.GetWebhookServer().WebhookMux()
}
