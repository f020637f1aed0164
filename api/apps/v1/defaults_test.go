package v1_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
)

// created stores a manifest in a new namespace and returns what the API server then has.
func created(t *testing.T, u *unstructured.Unstructured) map[string]any {
	t.Helper()
	c := newClient(t)
	namespace := env.Namespace(t)
	if u.GetKind() == webApp {
		u.SetNamespace(namespace)
	} else {
		u.SetName(namespace) // as unique
	}
	if err := c.Create(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(u.GroupVersionKind())
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(u), stored); err != nil {
		t.Fatal(err)
	}
	return stored.Object
}

func TestDefaults(t *testing.T) {
	for _, c := range []struct{ name, kind, spec, want string }{
		{"smallest", webApp, ``, `
image: nginx
replicas: 1
port: 80
probes: {}
rollout: {progressDeadline: 10m}
service: {type: ClusterIP}
topologySpread: true`},
		{"parts", webApp, `
replicas: 0
ingress: {host: a, certIssuer: {name: a}}
gateway: {parentRefs: [{name: a}]}
monitoring: {}
networkPolicy: {}
disruption: {}
strategy: {}
rollout: {autoRollback: true}
autoscaling: {maxReplicas: 3, targetCPUUtilizationPercentage: 50}
resources: {requests: {cpu: 1}}`, `
image: nginx
replicas: 0
port: 80
probes: {}
rollout: {progressDeadline: 10m, autoRollback: true}
service: {type: ClusterIP}
topologySpread: true
ingress: {host: a, path: /, pathType: Prefix, certIssuer: {name: a, kind: Issuer}}
gateway: {parentRefs: [{name: a}], path: /}
monitoring: {port: http, path: /metrics, interval: 30s}
networkPolicy: {enabled: true}
disruption: {enabled: true}
strategy: {type: RollingUpdate}
autoscaling: {minReplicas: 1, maxReplicas: 3, targetCPUUtilizationPercentage: 50}
resources: {requests: {cpu: 1}}`},
		{"policy", webAppPolicy, ``, `{namespaceSelector: {}, maxReplicas: 10, action: Warn}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := object(t, c.kind, c.spec)
			got := created(t, u)["spec"]
			if diff := cmp.Diff(normal(t, c.want), normal(t, got)); diff != "" {
				t.Errorf("stored spec (-want +got):\n%s", diff)
			}
		})
	}
}

// normal is YAML text, or what was made of it, in one form.
func normal(t *testing.T, v any) any {
	t.Helper()
	text, ok := v.(string)
	if !ok {
		raw, err := yaml.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		text = string(raw)
	}
	var out any
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestStatusRightAfterCreation(t *testing.T) {
	for _, kind := range []string{webApp, webAppPolicy} {
		u := object(t, kind, "")
		u.SetName("fresh")
		app := &appsv1.WebApp{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(created(t, u), app); err != nil {
			t.Fatal(err)
		}
		ready := meta.FindStatusCondition(app.Status.Conditions, "Ready")
		if ready == nil || ready.Status != metav1.ConditionUnknown || ready.Reason != "Reconciling" || ready.Message != "waiting for the Fettle operator" {
			t.Errorf("%s: Ready is %+v", kind, ready)
		}
		if kind == webApp && app.Status.Phase != appsv1.PhasePending {
			t.Errorf("phase is %q, want Pending", app.Status.Phase)
		}
	}
}

// TestExamples applies manifests that people know from elsewhere.
func TestExamples(t *testing.T) {
	for name, spec := range map[string]string{
		"my-app":      `{image: "nginx:latest", replicas: 3, port: 80}`,
		"demo-app":    `{image: "nginx:1.25", replicas: 3, port: 80}`,
		"my-webapp":   `{image: "nginx:1.21", replicas: 3, port: 80}`,
		"test-app":    `{image: "nginx:alpine", replicas: 2, port: 80}`,
		"test-webapp": `{image: "nginx:alpine", replicas: 2, port: 80}`,
	} {
		u := object(t, webApp, spec)
		u.SetName(name)
		if err := try(t, newClient(t), u); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSamples(t *testing.T) {
	files, err := filepath.Glob("../../../config/samples/apps_*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no samples", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &u.Object); err != nil {
			t.Fatal(err)
		}
		if u.GetKind() == webApp {
			u.SetNamespace("default")
		} else if action, _, _ := unstructured.NestedString(u.Object, "spec", "action"); action != string(appsv1.ActionWarn) {
			t.Errorf("%s: action %q: a policy that is created by a click must reject nothing", file, action)
		}
		if err := try(t, newClient(t), u); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestScale(t *testing.T) {
	c := newClient(t)
	u := object(t, webApp, "replicas: 3")
	created(t, u)
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 5}}
	if err := c.SubResource("scale").Update(t.Context(), u, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(u), u); err != nil {
		t.Fatal(err)
	}
	if n, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas"); n != 5 {
		t.Errorf("spec.replicas is %d, want 5", n)
	}
}

// TestRoundTrip holds that the Go types lose nothing and add nothing that changes the meaning.
func TestRoundTrip(t *testing.T) {
	stored := created(t, object(t, webApp, `{replicas: 0, env: [{name: A, value: "1"}], rollout: {progressDeadline: 90s}}`))
	app := &appsv1.WebApp{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(stored, app); err != nil {
		t.Fatal(err)
	}
	if got := app.Spec.Rollout.ProgressDeadline.Duration; got != 90*time.Second || *app.Spec.Replicas != 0 {
		t.Errorf("progressDeadline %s, replicas %d", got, *app.Spec.Replicas)
	}
	back, err := runtime.DefaultUnstructuredConverter.ToUnstructured(app)
	if err != nil {
		t.Fatal(err)
	}
	spec := normal(t, back["spec"]).(map[string]any)
	spec["rollout"] = normal(t, `{progressDeadline: 90s}`) // 1m30s
	spec["probes"] = map[string]any{}
	if diff := cmp.Diff(normal(t, stored["spec"]), any(spec)); diff != "" {
		t.Errorf("spec after a round trip (-stored +Go):\n%s", diff)
	}
}
