package v1alpha1_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	votingv1alpha1 "github.com/fettle-dev/fettle/api/voting/v1alpha1"
)

// created stores a VoteConfig and returns it as the API server then has it.
func created(t *testing.T, spec string) *votingv1alpha1.VoteConfig {
	t.Helper()
	u := object(t, spec)
	u.SetNamespace(env.Namespace(t))
	if err := newClient(t).Create(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	vc := &votingv1alpha1.VoteConfig{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, vc); err != nil {
		t.Fatal(err)
	}
	return vc
}

func TestDefaults(t *testing.T) {
	options := []votingv1alpha1.VoteOption{{ID: "a", Label: "Cats"}, {ID: "b", Label: "Dogs"}}
	for spec, want := range map[string]votingv1alpha1.VoteConfigSpec{
		"": {
			Title: "Vote Now!", ResultsTitle: "Results", Options: options, Target: votingv1alpha1.VoteTarget{Mode: votingv1alpha1.RestartEnv},
		},
		"{title: Pets, resultsTitle: Won, maxVotesPerUser: 3, target: {configMapName: pets, deployments: [vote], mode: None}}": {
			Title: "Pets", ResultsTitle: "Won", Options: options, MaxVotesPerUser: new(int32(3)),
			Target: votingv1alpha1.VoteTarget{ConfigMapName: "pets", Deployments: []string{"vote"}, Mode: votingv1alpha1.RestartNone},
		},
	} {
		if diff := cmp.Diff(want, created(t, spec).Spec); diff != "" {
			t.Errorf("%q: stored spec (-want +got):\n%s", spec, diff)
		}
	}
}

func TestStatusRightAfterCreation(t *testing.T) {
	status := created(t, "").Status
	ready := meta.FindStatusCondition(status.Conditions, "Ready")
	if ready == nil || ready.Status != metav1.ConditionUnknown || ready.Reason != "Reconciling" || ready.Message != "waiting for the Fettle operator" {
		t.Errorf("Ready is %+v", ready)
	}
	if status.Phase != votingv1alpha1.PhasePending {
		t.Errorf("phase is %q, want Pending", status.Phase)
	}
}

// TestExamples applies manifests that people know from elsewhere, and the sample.
func TestExamples(t *testing.T) {
	c := newClient(t)
	for name, spec := range map[string]string{
		"cats-vs-dogs": `{title: "Cats vs Dogs!", resultsTitle: Results, options: [{id: a, label: Cats, color: "#FF6B6B"}, {id: b, label: Dogs, color: "#4ECDC4"}]}`,
		"languages":    `options: [{id: a, label: Go, color: "#00ADD8"}, {id: b, label: Rust, color: "#DEA584"}, {id: c, label: Python, color: "#3776AB"}]`,
		"no-colors":    twoOptions,
		"limited":      `{maxVotesPerUser: 3, options: [{id: a, label: Cats}, {id: b, label: Dogs}]}`,
	} {
		u := object(t, spec)
		u.SetName(name)
		if err := try(t, c, u); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	text, err := os.ReadFile("../../../config/samples/voting_v1alpha1_voteconfig.yaml")
	if err != nil {
		t.Fatal(err)
	}
	sample := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(text, &sample.Object); err != nil {
		t.Fatal(err)
	}
	sample.SetNamespace("default")
	if err := try(t, c, sample); err != nil {
		t.Errorf("the sample: %v", err)
	}
}
