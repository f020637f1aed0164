package webhook_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
	"github.com/fettle-dev/fettle/internal/stack"
	"github.com/fettle-dev/fettle/internal/webhook"
)

// newStack makes the AppStack "shop" with a spec in YAML.
func newStack(t *testing.T, namespace, spec string) *platformv1.AppStack {
	t.Helper()
	s := &platformv1.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"}}
	if err := yaml.UnmarshalStrict([]byte(spec), &s.Spec); err != nil {
		t.Fatal(err)
	}
	return s
}

// newPlatform makes the EcommercePlatform "store" with a spec in YAML.
func newPlatform(t *testing.T, namespace, spec string) *platformv1.EcommercePlatform {
	t.Helper()
	p := &platformv1.EcommercePlatform{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "store"}}
	if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
		t.Fatal(err)
	}
	return p
}

// expectPlaces checks that err is Invalid and names these fields, or is nil if there are none.
func expectPlaces(t *testing.T, what string, err error, want ...string) {
	t.Helper()
	var places []string
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && apierrors.IsInvalid(err) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			places = append(places, cause.Field)
		}
	}
	slices.Sort(places)
	slices.Sort(want)
	if diff := cmp.Diff(want, places); diff != "" || err != nil && len(places) == 0 {
		t.Errorf("%s: %v, fields (-want +got):\n%s", what, err, diff)
	}
}

// webhooksAnswer waits until the webhook of AppStacks is called: its failures are ignored.
func webhooksAnswer(t *testing.T, u *user, namespace string) {
	t.Helper()
	eventually(t, "the webhook of AppStacks answers", func() error {
		err := u.Create(t.Context(), newStack(t, namespace, `{components: [{name: web, webApp: {replcas: 1}}]}`), client.DryRunAll)
		if !apierrors.IsInvalid(err) {
			return fmt.Errorf("an unknown field is answered with: %w", err)
		}
		return nil
	})
}

const everyKind = `
components:
- {name: db, postgreSQL: {version: "17", storage: 1Gi}}
- {name: legacy, mySQL: {storage: 1Gi}}
- {name: cache, cache: {memory: 64Mi}}
- {name: config, config: {environment: dev, config: {LOG_LEVEL: debug}}}
- {name: partner, external: {type: PostgreSQL, secretRef: {name: partner}}}
- {name: backend, webApp: {image: "example.com/backend:1", port: 8080}}
- {name: frontend, webApp: {image: "example.com/frontend:1"}}
`

func TestAppStack_places(t *testing.T) {
	u, namespace := newUser(t), env.Namespace(t)
	webhooksAnswer(t, u, namespace)
	for name, c := range map[string]struct {
		spec string
		want []string
	}{
		"every kind":            {everyKind, nil},
		"each environment":      {"environment: staging" + everyKind, nil},
		"an unknown field":      {`{components: [{name: web, webApp: {image: a, replcas: 2}}]}`, []string{"spec.components[web].webApp.replcas"}},
		"a nested one":          {`{components: [{name: web, webApp: {image: a, probes: {ready: {}}}}]}`, []string{"spec.components[web].webApp.probes.ready"}},
		"no spec of the kind":   {`{components: [{name: db, postgreSQL: {version: 17, storage: 1Gi}}]}`, []string{"spec.components[db].postgreSQL"}},
		"a cycle":               {`{components: [{name: a, webApp: {image: a}, dependsOn: [b]}, {name: b, webApp: {image: a}, dependsOn: [a]}]}`, []string{"spec.components[a].dependsOn"}},
		"a rule of the kind":    {`{components: [{name: db, postgreSQL: {version: "17", storage: 1Mi}}]}`, []string{"spec.components[db].postgreSQL.storage"}},
		"a missing field":       {`{components: [{name: db, postgreSQL: {version: "17"}}]}`, []string{"spec.components[db].postgreSQL.storage", "spec.components[db].postgreSQL"}}, // the other says that some rules were not checked
		"a rule of its webhook": {`{components: [{name: db, postgreSQL: {version: "17", storage: 1Gi, parameters: {no_such: "1"}}}]}`, []string{"spec.components[db].postgreSQL.parameters"}},
		"no destination":        {`{environment: production, components: [{name: db, postgreSQL: {version: "17"}}, {name: my, mySQL: {}}]}`, []string{"spec.components[db].postgreSQL.backup.destination", "spec.components[my].mySQL.backup.destination"}},
		"all that cannot be planned": {`
components:
- {name: web, webApp: {image: a, replcas: 2, prots: []}}
- {name: db, postgreSQL: {version: "17", storage: 1Gi, replcas: 2}}
- {name: settings, config: {config: {}}}
- {name: cache, cache: {memory: 1Mi}}
- {name: legacy, mySQL: {storage: 1Mi}}
`, []string{
			"spec.components[web].webApp.replcas", "spec.components[web].webApp.prots", "spec.components[db].postgreSQL.replcas",
			"spec.components[settings].config.environment", "spec.components[cache].cache.memory", "spec.components[legacy].mySQL.storage",
		}},
		"all that the API server rejects": {`
components:
- {name: web, webApp: {image: a, port: 0, terminationGracePeriodSeconds: -1}}
- {name: other, webApp: {image: "a b"}}
- {name: db, postgreSQL: {version: "17", storage: 1Mi, replicas: 99}}
`, []string{
			"spec.components[web].webApp.terminationGracePeriodSeconds", "spec.components[web].webApp.port", "spec.components[other].webApp.image",
			"spec.components[db].postgreSQL.storage", "spec.components[db].postgreSQL.replicas",
		}},
	} {
		expectPlaces(t, name, u.Create(t.Context(), newStack(t, namespace, c.spec), client.DryRunAll), c.want...)
	}
}

// What a policy of the namespace forbids to a WebApp is forbidden to the block of an AppStack, with its place.
func TestAppStack_policy(t *testing.T) {
	u, namespace := newUser(t), env.Namespace(t)
	p := newPolicy(t, u, namespace, seedRules())
	webhooksAnswer(t, u, namespace)
	const at = "spec.components[web].webApp"
	stackOf := func(environment, block string) *platformv1.AppStack {
		return newStack(t, namespace, fmt.Sprintf(`{environment: %q, components: [{name: web, webApp: %s}]}`, environment, block))
	}
	err := u.Create(t.Context(), stackOf("development", `{image: "nginx:1.25", replicas: 11, resources: {}}`), client.DryRunAll)
	expectPlaces(t, "all rules", err, at+".image", at+".replicas", at+".resources.limits.cpu", at+".resources.limits.memory")
	if err != nil && (!strings.Contains(err.Error(), p.Name) || !strings.Contains(err.Error(), "allows at most 10; lower it")) {
		t.Errorf("the error does not name the policy and what to do: %v", err)
	}
	err = u.Create(t.Context(), stackOf("staging", `{image: "registry.company.com/web:1", replicas: 11}`), client.DryRunAll)
	expectPlaces(t, "limits of the environment", err, at+".replicas")
	err = u.Create(t.Context(), stackOf("staging", `{image: "registry.company.com/web:1"}`), client.DryRunAll)
	expectPlaces(t, "what the policy allows", err)
	err = u.Create(t.Context(), stackOf("staging", `{image: "registry.company.com/web:1", podTemplate: {spec: {containers: [{name: proxy, image: "evil.example/a:1"}]}}}`), client.DryRunAll)
	expectPlaces(t, "a sidecar", err, at+".podTemplate.spec.containers[proxy].image", at+".podTemplate.spec.containers[proxy].resources.limits.cpu",
		at+".podTemplate.spec.containers[proxy].resources.limits.memory")
	err = u.Create(t.Context(), newStack(t, namespace, `{components: [{name: db, postgreSQL: {version: "17", storage: 1Gi, image: "evil.example/postgres:17"}}]}`), client.DryRunAll)
	expectPlaces(t, "a database", err, "spec.components[db].postgreSQL.image")
	servers := `{components: [{name: cache, cache: {image: "evil.example/valkey:8"}}, {name: db, mySQL: {image: "evil.example/mysql:8"}}]}`
	err = u.Create(t.Context(), newStack(t, namespace, servers), client.DryRunAll)
	expectPlaces(t, "servers without a kind of their own", err, "spec.components[cache].cache.image", "spec.components[db].mySQL.image")
	own := `{components: [{name: cache, cache: {image: "registry.company.com/valkey:8"}}, {name: db, mySQL: {image: "registry.company.com/mysql:8"}}]}`
	expectPlaces(t, "servers from the registry", u.Create(t.Context(), newStack(t, namespace, own), client.DryRunAll))
}

// A volume that exists cannot shrink.
func TestAppStack_shrinks(t *testing.T) {
	u, namespace := newUser(t), env.Namespace(t)
	webhooksAnswer(t, u, namespace)
	createDatabases(t, u, namespace, "shop")
	for spec, want := range map[string][]string{
		`{name: db, postgreSQL: {version: "17", storage: 1Gi}}`: {"spec.components[db].postgreSQL.storage"},
		`{name: db, postgreSQL: {version: "17", storage: 3Gi}}`: nil,
		`{name: my, mySQL: {storage: 1Gi}}`:                     {"spec.components[my].mySQL.storage"},
		`{name: my, mySQL: {storage: 3Gi}}`:                     nil,
	} {
		eventually(t, spec, func() error { // when the cache has them
			err := u.Create(t.Context(), newStack(t, namespace, `{components: [`+spec+`]}`), client.DryRunAll)
			if (err != nil) != (want != nil) {
				return fmt.Errorf("%w, want %q", err, want)
			}
			expectPlaces(t, spec, err, want...)
			return nil
		})
	}
}

// createDatabases creates a PostgreSQL of 2Gi and the volume of a MySQL of 2Gi, as the components db and my of a stack have them.
func createDatabases(t *testing.T, u *user, namespace, name string) {
	t.Helper()
	pg := &databasev1alpha1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-db"}}
	pg.Spec.Version, pg.Spec.Storage = "17", resource.MustParse("2Gi")
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data-" + name + "-my-0"}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
	if err := errors.Join(u.Create(t.Context(), pg), u.Create(t.Context(), claim)); err != nil {
		t.Fatal(err)
	}
}

// An object that was there before a policy may change in all but its spec, and in its spec too once it is being deleted.
func TestAppStack_update(t *testing.T) {
	u, namespace := newUser(t), env.Namespace(t)
	webhooksAnswer(t, u, namespace)
	s := newStack(t, namespace, `{components: [{name: web, webApp: {image: "nginx:1.25"}}]}`)
	s.Finalizers = []string{"example.com/held"}
	p := newPlatform(t, namespace, `{frontend: {image: a}, backend: {image: b}}`)
	p.Finalizers = s.Finalizers
	if err := errors.Join(u.Create(t.Context(), s), u.Create(t.Context(), p)); err != nil {
		t.Fatal(err)
	}
	newPolicy(t, u, namespace, seedRules())
	merge := func(o client.Object, patch string) error {
		return u.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(patch)))
	}
	for _, o := range []client.Object{s, p} {
		expectPlaces(t, "a label", merge(o, `{"metadata":{"labels":{"team":"a"}}}`))
	}
	const block = `{"spec":{"components":[{"name":"web","webApp":{"image":"nginx:1.26","replcas":1}}]}}`
	expectPlaces(t, "a field of the spec", merge(s, `{"spec":{"paused":true}}`),
		"spec.components[web].webApp.image", "spec.components[web].webApp.resources.limits.cpu", "spec.components[web].webApp.resources.limits.memory")
	expectPlaces(t, "an unknown field", merge(s, block), "spec.components[web].webApp.replcas")
	expectPlaces(t, "an unknown field of a platform", merge(p, `{"spec":{"backend":{"webApp":{"replcas":1}}}}`), "spec.backend.webApp.replcas")
	if err := errors.Join(u.Delete(t.Context(), s), u.Delete(t.Context(), p)); err != nil {
		t.Fatal(err)
	}
	expectPlaces(t, "while it is being deleted", merge(s, block))
	expectPlaces(t, "while a platform is being deleted", merge(p, `{"spec":{"backend":{"webApp":{"replcas":1}}}}`))
	for _, o := range []client.Object{s, p} {
		expectPlaces(t, "the finalizer", merge(o, `{"metadata":{"finalizers":null}}`))
	}
}

// An object of somebody else with the name of a child may be gone when the AppStack is reconciled: its condition tells of it.
func TestAppStack_nameConflict(t *testing.T) {
	u, namespace := newUser(t), env.Namespace(t)
	webhooksAnswer(t, u, namespace)
	foreign := newApp(namespace, "shop-web")
	if err := u.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	expectPlaces(t, "a foreign WebApp", u.Create(t.Context(), newStack(t, namespace, `{components: [{name: web, webApp: {image: a}}]}`)))
	after := &appsv1.WebApp{}
	if err := u.Get(t.Context(), client.ObjectKeyFromObject(foreign), after); err != nil || after.ResourceVersion != foreign.ResourceVersion {
		t.Errorf("admission changed it: %v, %v", after, err)
	}
}

// The errors of an EcommercePlatform name its own fields.
func TestEcommercePlatform_places(t *testing.T) {
	u, namespace := newUser(t), env.Namespace(t)
	webhooksAnswer(t, u, namespace)
	newPolicy(t, u, namespace, appsv1.WebAppPolicySpec{
		Action: appsv1.ActionEnforce, MaxReplicas: new(int32(10)), AllowedRegistries: []string{"docker.io/"},
	})
	createDatabases(t, u, namespace, "store")
	for name, c := range map[string]struct {
		spec string
		want []string
	}{
		"the smallest":      {`{frontend: {image: a}, backend: {image: b}, database: {storage: 3Gi}}`, nil},
		"unknown fields":    {`{frontend: {image: a, webApp: {replcas: 1}}, backend: {image: b, webApp: {service: {prot: 1}}}}`, []string{"spec.frontend.webApp.replcas", "spec.backend.webApp.service.prot"}},
		"both":              {`{frontend: {image: a, webApp: {image: b}}, backend: {image: b}}`, []string{"spec.frontend.webApp.image"}},
		"a policy":          {`{frontend: {image: evil.example/a}, backend: {image: b, replicas: 11}, database: {storage: 3Gi}}`, []string{"spec.frontend.image", "spec.backend.replicas"}},
		"a rule of WebApps": {`{frontend: {image: a, webApp: {port: 0}}, backend: {image: b}, database: {storage: 3Gi}}`, []string{"spec.frontend.webApp.port"}},
		"a volume shrinks":  {`{frontend: {image: a}, backend: {image: b}, database: {storage: 1Gi}}`, []string{"spec.database.storage"}},
		"no destination":    {`{environment: production, frontend: {image: a}, backend: {image: b}}`, []string{"spec.database.backup.destination"}},
		"a cache":           {`{frontend: {image: a}, backend: {image: b}, cache: {memory: 1Mi}}`, []string{"spec.cache.memory"}},
		"the label": {
			`{frontend: {image: a}, backend: {image: b}, inheritedMetadata: {labels: {platform: other}}}`, []string{"spec.inheritedMetadata.labels[platform]"},
		},
	} {
		expectPlaces(t, name, u.Create(t.Context(), newPlatform(t, namespace, c.spec), client.DryRunAll), c.want...)
	}
}

// counter counts requests without effect, and others than reads.
type counter struct {
	next            http.RoundTripper
	dryRuns, writes atomic.Int64
}

func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case r.URL.Query().Get("dryRun") == metav1.DryRunAll:
		c.dryRuns.Add(1)
	case r.Method != http.MethodGet:
		c.writes.Add(1)
	}
	return c.next.RoundTrip(r)
}

// TestAppStack_cost counts the requests of one admission: one for each child object, without effect.
func TestAppStack_cost(t *testing.T) {
	u, namespace, count := newUser(t), env.Namespace(t), &counter{}
	config := rest.CopyConfig(env.Operator)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		count.next = next
		return count
	})
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: newScheme(), Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := webhook.Setup(t.Context(), mgr, stack.Options{}); err != nil {
		t.Fatal(err)
	}
	go func() { _ = mgr.GetCache().Start(t.Context()) }()
	mgr.GetCache().WaitForCacheSync(t.Context())
	s := newStack(t, namespace, `
deletionPolicy: Retain
components:
- {name: db, postgreSQL: {version: "17", storage: 1Gi}}
- {name: cache, cache: {memory: 64Mi}}
- {name: config, config: {environment: dev, config: {LOG_LEVEL: debug}}}
- {name: backend, webApp: {image: "example.com/backend:1", port: 8080}}
- {name: frontend, webApp: {image: "example.com/frontend:1"}}
`)
	for _, cold := range []bool{true, false} {
		count.dryRuns.Store(0)
		start := time.Now()
		answer := review(t, mgr.GetWebhookServer().WebhookMux(), s)
		took := time.Since(start)
		if !answer.Allowed {
			t.Fatalf("rejected: %v", answer.Result)
		}
		t.Logf("5 components: %d requests without effect, %s; first admission: %t", count.dryRuns.Load(), took.Round(time.Millisecond), cold)
		if took > 10*time.Second {
			t.Errorf("admission took %s, the webhook's time limit is 10 s", took)
		}
	}
	const objects = 6 // the cache has two: a StatefulSet and a Service
	if n := count.dryRuns.Load(); n != objects || count.writes.Load() > 0 {
		t.Errorf("%d requests without effect, %d with one; want %d and none", n, count.writes.Load(), objects)
	}
	webhooksAnswer(t, u, namespace)
	start := time.Now()
	expectPlaces(t, "5 components", u.Create(t.Context(), s))
	t.Logf("5 components: created in %s, with admission", time.Since(start).Round(time.Millisecond))
}

// review asks the webhook of AppStacks about a new object, as the API server does.
func review(t *testing.T, handler http.Handler, s *platformv1.AppStack) *admissionv1.AdmissionResponse {
	t.Helper()
	s = s.DeepCopy()
	s.SetGroupVersionKind(platformv1.GroupVersion.WithKind("AppStack"))
	object, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "1", Kind: metav1.GroupVersionKind{Group: platformv1.GroupVersion.Group, Version: "v1", Kind: "AppStack"},
			Namespace: s.Namespace, Name: s.Name, Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: object},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/validate-platform-fettle-dev-v1-appstack", bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	answer := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(recorder.Body.Bytes(), answer); err != nil || answer.Response == nil {
		t.Fatalf("%d %s: %v", recorder.Code, recorder.Body, err)
	}
	return answer.Response
}
