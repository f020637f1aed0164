package v1_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
)

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

func TestDefaults(t *testing.T) {
	for spec, want := range map[string]string{
		``: `
application: shop
environment: dev
config: {A: "1"}
target: {mode: InPlace, historyLimit: 5}
rollout: {strategy: Restart, discovery: References, debounce: 5s, minInterval: 30s, maxConcurrent: 1, progressDeadline: 10m}`,
		`{target: {historyLimit: 0}, rollout: {strategy: None, window: {schedule: "0 2 * * *", duration: 1h}}, schema: {config: {x-any: [1]}, files: {a.json: {b: {}}}}}`: `
application: shop
environment: dev
config: {A: "1"}
schema: {config: {x-any: [1]}, files: {a.json: {b: {}}}}
target: {mode: InPlace, historyLimit: 0}
rollout:
  strategy: None
  discovery: References
  debounce: 5s
  minInterval: 30s
  maxConcurrent: 1
  progressDeadline: 10m
  window: {schedule: "0 2 * * *", duration: 1h, timeZone: UTC}`,
	} {
		got := created(t, object(t, spec)).Object["spec"]
		if diff := cmp.Diff(normal(t, want), normal(t, got)); diff != "" {
			t.Errorf("%q is stored as (-want +got):\n%s", spec, diff)
		}
	}
}

func TestStatusRightAfterCreation(t *testing.T) {
	cfg := &configv1.AppConfig{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(created(t, object(t, "")).Object, cfg); err != nil {
		t.Fatal(err)
	}
	ready := meta.FindStatusCondition(cfg.Status.Conditions, "Ready")
	if ready == nil || ready.Status != metav1.ConditionUnknown || ready.Reason != "Reconciling" || cfg.Status.Phase != configv1.PhasePending {
		t.Errorf("phase %q, Ready %+v", cfg.Status.Phase, ready)
	}
}

// TestExamples applies manifests with nothing but what people know from elsewhere, and the sample.
func TestExamples(t *testing.T) {
	c := newClient(t)
	if err := try(t, c, object(t, `{application: my-app, environment: prod, config: {database_url: "postgres://prod-db:5432/my-app", log_level: warn}}`)); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile("../../../config/samples/config_v1_appconfig.yaml")
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &u.Object); err != nil {
		t.Fatal(err)
	}
	u.SetNamespace("default")
	if err := try(t, c, u); err != nil {
		t.Error(err)
	}
}

// TestRoundTrip holds that the Go types lose nothing.
func TestRoundTrip(t *testing.T) {
	stored := created(t, object(t, `{rollout: {debounce: 0s, minInterval: 90s}, target: {historyLimit: 0}, schema: {files: {a.json: {type: object}}}}`)).Object
	cfg := &configv1.AppConfig{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(stored, cfg); err != nil {
		t.Fatal(err)
	}
	if got := cfg.Spec.Rollout.MinInterval.Duration; got != 90*time.Second || cfg.Spec.Rollout.Debounce == nil || *cfg.Spec.Target.HistoryLimit != 0 {
		t.Errorf("minInterval %s, debounce %v", got, cfg.Spec.Rollout.Debounce)
	}
	back, err := runtime.DefaultUnstructuredConverter.ToUnstructured(cfg)
	if err != nil {
		t.Fatal(err)
	}
	spec := normal(t, back["spec"]).(map[string]any)
	spec["rollout"].(map[string]any)["minInterval"] = "90s"
	spec["rollout"].(map[string]any)["progressDeadline"] = "10m"
	if diff := cmp.Diff(normal(t, stored["spec"]), any(spec)); diff != "" {
		t.Errorf("spec after a round trip (-stored +Go):\n%s", diff)
	}
}

func TestUnknownFields(t *testing.T) {
	err := try(t, newClient(t), object(t, "configs: {}"))
	if err == nil || !strings.Contains(err.Error(), `unknown field "spec.configs"`) {
		t.Error(err)
	}
}
