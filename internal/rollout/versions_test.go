package rollout

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
)

const (
	v1 = "shop-config-1111111111"
	v2 = "shop-config-2222222222"
)

// version is the current version of the ConfigMap.
func version(name, a string, versions ...string) Object {
	o := published(a, "1")
	o.Versioned, o.Name, o.Versions = true, name, versions
	return o
}

func keyOf(name, key string) func(*Workload) {
	return references(Reference{Kind: ConfigMap, Name: name, Key: key})
}

func TestVersions(t *testing.T) {
	debounced := thePolicy
	debounced.Debounce = 2 * time.Hour
	first, second := version(v1, "1", v1), version(v2, "2", v1, v2)
	inPlace := published("2", "1")
	inPlace.Versions = []string{"shop-config", v1, v2}
	gone := version(v2, "2", v2)
	for name, tc := range map[string]struct {
		object  Object
		w       *Workload
		want    outcome
		renames map[rename]string
	}{
		"a new workload is switched at once": {
			object: second, w: user(Deployment, "x", keyOf("shop-config", "a")),
			want:    outcome{Restarts: []string{"x"}, States: map[string]State{"x": Restarting}, Reason: configv1.ReasonRollingOut},
			renames: map[rename]string{{ConfigMap, "shop-config"}: v2},
		},
		"a workload whose version is deleted is switched at once": {
			object: gone, w: user(Deployment, "x", keyOf(v1, "a")),
			want:    outcome{Restarts: []string{"x"}, States: map[string]State{"x": Restarting}, Reason: configv1.ReasonRollingOut},
			renames: map[rename]string{{ConfigMap, v1}: v2},
		},
		"no faster than the interval, if another client reverts it each time": {
			object: gone, w: user(Deployment, "x", keyOf(v2, "a"), rolled(gone, start.Add(-10*time.Second)), keyOf("shop-config", "a")),
			want: outcome{States: map[string]State{"x": Pending}, Reason: configv1.ReasonDebouncing, RequeueAfter: 20 * time.Second},
		},
		"a workload with an existing version waits": {
			object: second, w: user(Deployment, "x", keyOf(v1, "a"), recorded(first)),
			want: outcome{States: map[string]State{"x": Pending}, Reason: configv1.ReasonDebouncing, RequeueAfter: time.Hour},
		},
		"a workload whose keys did not change stays": {
			object: second, w: user(Deployment, "x", keyOf(v1, "b"), recorded(first)),
			want: outcome{States: map[string]State{"x": UpToDate}, Reason: configv1.ReasonRolledOut},
		},
		"a workload with the current version is recorded": {
			object: second, w: user(Deployment, "x", keyOf(v2, "a")),
			want: outcome{Records: []string{"x"}, States: map[string]State{"x": UpToDate}, Reason: configv1.ReasonRolledOut},
		},
		"a workload that a user moved to another version is moved back": {
			object: second, w: user(Deployment, "x", keyOf(v2, "a"), rolled(second, start.Add(-time.Hour)), keyOf(v1, "a")),
			want: outcome{States: map[string]State{"x": Pending}, Reason: configv1.ReasonDebouncing, RequeueAfter: time.Hour},
		},
		"in place again, the workload gets the name of the target": {
			object: inPlace, w: user(Deployment, "x", keyOf(v2, "a"), rolled(second, start.Add(-time.Hour))),
			want: outcome{States: map[string]State{"x": Pending}, Reason: configv1.ReasonDebouncing, RequeueAfter: time.Hour},
		},
		"in place, a foreign object that looks like a version is none": {
			object: published("2", "1"), w: user(Deployment, "x", keyOf(v1, "a")),
			want: outcome{Records: []string{"x"}, States: map[string]State{"x": UpToDate}, Reason: configv1.ReasonRolledOut},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, decided(start, debounced, []Object{tc.object}, tc.w)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if tc.renames == nil {
				return
			}
			p := &evaluation{now: start, owner: theOwner, policy: debounced, published: []Object{tc.object}, key: testKey}
			plan := p.decide([]*Workload{tc.w}, func(*Workload) lastWrite { return lastWrite{} })
			if diff := cmp.Diff(tc.renames, plan.restarts[0].renames); diff != "" {
				t.Errorf("renames (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRenames_leaveWorkloadUpToDate renames as planned, and finds nothing left to do.
func TestRenames_leaveWorkloadUpToDate(t *testing.T) {
	object := version(v2, "2", v1, v2)
	w := user(Deployment, "x", references(
		Reference{Kind: ConfigMap, Name: v1, Key: "a"}, Reference{Kind: ConfigMap, Name: "shop-config"}, Reference{Kind: ConfigMap, Name: v2, Key: "a"},
	))
	p := &evaluation{now: start, owner: theOwner, policy: thePolicy, published: []Object{object}, key: testKey}
	plan := p.decide([]*Workload{w}, func(*Workload) lastWrite { return lastWrite{} })
	a := plan.restarts[0]
	w.records[theKey], w.templates[theKey] = a.record.String(), a.record.Hash
	for i, ref := range w.References {
		if to, ok := a.renames[rename{ref.Kind, ref.Name}]; ok {
			w.References[i].Name = to
		}
	}
	w.References = compact(w.References)
	if diff := cmp.Diff(outcome{States: map[string]State{"x": UpToDate}, Reason: configv1.ReasonRolledOut}, decided(start, thePolicy, p.published, w)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBaseOf(t *testing.T) {
	for name, want := range map[string]string{
		v1: "shop-config", "a-0123456789": "a", "shop-config": "", "-0123456789": "", "a-012345678": "", "a-012345678g": "", "a-012345678A": "", "": "",
	} {
		if got, ok := BaseOf(name); got != want || ok != (want != "") {
			t.Errorf("BaseOf(%q) = %q, %v", name, got, ok)
		}
	}
}

const everyReference = `
initContainers:
- {name: i, envFrom: [{configMapRef: {name: c}}, {secretRef: {name: other}}]}
containers:
- name: a
  env:
  - {name: PLAIN, value: x}
  - {name: K, valueFrom: {configMapKeyRef: {name: c, key: k}}}
  - {name: S, valueFrom: {secretKeyRef: {name: s, key: k, optional: true}}}
  - {name: F, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
- {name: b, envFrom: [{secretRef: {name: s}}]}
imagePullSecrets: [{name: s}]
volumes:
- {name: e, emptyDir: {}}
- {name: m, configMap: {name: c, items: [{key: k, path: p}]}}
- {name: s, secret: {secretName: s}}
- {name: p, projected: {sources: [{configMap: {name: c}}, {secret: {name: s, optional: true}}, {downwardAPI: {}}]}}
`

func podSpec(t *testing.T, text string) *corev1.PodSpec {
	t.Helper()
	pod := &corev1.PodSpec{}
	if err := yaml.UnmarshalStrict([]byte(text), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

func TestReferencesOf(t *testing.T) {
	want := []Reference{
		{Kind: ConfigMap, Name: "c"}, {Kind: ConfigMap, Name: "c", Key: "k"},
		{Kind: Secret, Name: "other"}, {Kind: Secret, Name: "s"}, {Kind: Secret, Name: "s", Key: "k", Optional: true},
	}
	if diff := cmp.Diff(want, ReferencesOf(podSpec(t, everyReference))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The patch renames every reference, sets both annotations, and keeps fields that this version of the API types does not know.
func TestPatchWithRenames(t *testing.T) {
	pod, err := runtime.DefaultUnstructuredConverter.ToUnstructured(podSpec(t, everyReference))
	if err != nil {
		t.Fatal(err)
	}
	pod["later"] = "x"
	live := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"resourceVersion": "7"}, "spec": map[string]any{"template": map[string]any{"spec": pod}},
	}}
	a := action{record: restartRecord("h", start), renames: map[rename]string{{ConfigMap, "c"}: "c2", {Secret, "s"}: "s2"}}
	raw, err := patchWithRenames(live, theKey, a)
	if err != nil {
		t.Fatal(err)
	}
	var ops []struct {
		Path  string
		Value any
	}
	if err := json.Unmarshal(raw, &ops); err != nil {
		t.Fatal(err)
	}
	var template corev1.PodTemplateSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(ops[2].Value.(map[string]any), &template); err != nil {
		t.Fatal(err)
	}
	want := []Reference{
		{Kind: ConfigMap, Name: "c2"}, {Kind: ConfigMap, Name: "c2", Key: "k"},
		{Kind: Secret, Name: "other"}, {Kind: Secret, Name: "s2"}, {Kind: Secret, Name: "s2", Key: "k", Optional: true},
	}
	if diff := cmp.Diff(want, ReferencesOf(&template.Spec)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	later, _, _ := unstructured.NestedString(ops[2].Value.(map[string]any), "spec", "later")
	annotations := ops[1].Value.(map[string]any)
	if ops[0].Value != "7" || annotations[theKey] != a.record.String() || template.Annotations[theKey] != "h" || later != "x" {
		t.Errorf("patch %s", raw)
	}
}
