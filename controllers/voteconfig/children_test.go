package voteconfig

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	votingv1alpha1 "github.com/fettle-dev/fettle/api/voting/v1alpha1"
	"github.com/fettle-dev/fettle/internal/reconciler"
	"github.com/fettle-dev/fettle/internal/rollout"
	"github.com/fettle-dev/fettle/internal/testenv/golden"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// TestGolden compares the ConfigMap of each testdata/*.yaml, a VoteConfig as the API server returns it, with what it was.
func TestGolden(t *testing.T) {
	golden.Cases(t, 3, func(t *testing.T, vc *votingv1alpha1.VoteConfig) string {
		t.Helper()
		return golden.YAML(t, []any{configMap(vc, published(&vc.Spec), nil, now)})
	})
}

func options(labels ...string) []votingv1alpha1.VoteOption {
	out := make([]votingv1alpha1.VoteOption, len(labels))
	for i, l := range labels {
		out[i] = votingv1alpha1.VoteOption{ID: string(rune('a' + i)), Label: l}
	}
	return out
}

func TestOptionsText_threeFields(t *testing.T) {
	got := optionsText([]votingv1alpha1.VoteOption{
		{ID: "a", Label: "Cats", Color: "#FF6B6B"}, {ID: "b", Label: "Dogs"}, {ID: "c", Label: "1:0 for: us", Color: "#000000"},
	})
	if want := "a:Cats:#FF6B6B\nb:Dogs:\nc:1：0 for： us:#000000\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// FuzzPublished wants every reader to find an option, whatever its label: three fields in options.txt, JSON that says the same.
func FuzzPublished(f *testing.F) {
	for _, label := range []string{"Cats", "a:b", `"quoted" \ back`, "<b>&amp;</b>", "🐈‍⬛", "100% $(HOME) ${X}", "'", "\u2060x", "\xff"} {
		f.Add(label, "#FF6B6B")
		f.Add(label, "")
	}
	f.Fuzz(func(t *testing.T, label, color string) {
		if strings.ContainsFunc(label+color, unicode.IsControl) || strings.ContainsAny(label, "\u2028\u2029") || strings.Contains(color, ":") {
			t.Skip("the schema rejects it")
		}
		label = strings.ToValidUTF8(label, "?") // JSON has nothing else
		color = strings.ToValidUTF8(color, "?")
		checkReaders(t, label, color)
	})
}

func checkReaders(t *testing.T, label, color string) {
	t.Helper()
	spec := votingv1alpha1.VoteConfigSpec{Options: options("first", label)}
	spec.Options[1].Color = color
	data := published(&spec)
	lines := strings.Split(data[keyText], "\n")
	if len(lines) != 3 || lines[2] != "" {
		t.Fatalf("options.txt: %q", data[keyText])
	}
	if diff := cmp.Diff([]string{"b", strings.ReplaceAll(label, ":", colon), color}, strings.Split(lines[1], ":")); diff != "" {
		t.Errorf("fields of options.txt (-want +got):\n%s", diff)
	}
	var document optionsDocument
	if err := json.Unmarshal([]byte(data[keyJSON]), &document); err != nil || document.Options[1] != (documentOption{"b", label, color}) {
		t.Errorf("label %q: options.json has %+v, %v", label, document, err)
	}
	for _, key := range []string{"OPTION_B", "option_b", keySecondValue} {
		if data[key] != label {
			t.Errorf("label %q: %s is %q", label, key, data[key])
		}
	}
}

func TestPublished_noOtherKeys(t *testing.T) {
	spec := votingv1alpha1.VoteConfigSpec{Title: "T", ResultsTitle: "R", Options: options("Cats", "Dogs"), MaxVotesPerUser: new(int32(3))}
	want := map[string]string{
		"options.txt":  "a:Cats:\nb:Dogs:\n",
		"options.json": `{"title":"T","resultsTitle":"R","maxVotesPerUser":3,"options":[{"id":"a","label":"Cats"},{"id":"b","label":"Dogs"}]}` + "\n",
		"title":        "T", "TITLE": "T", "results_title": "R", "RESULTS_TITLE": "R",
		"option_a": "Cats", "option_b": "Dogs", "OPTION_A": "Cats", "OPTION_B": "Dogs", "VOTE1VALUE": "Cats", "VOTE2VALUE": "Dogs",
		"max_votes_per_user": "3", "MAX_VOTES_PER_USER": "3",
	}
	if diff := cmp.Diff(want, published(&spec)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	spec.MaxVotesPerUser = nil
	delete(want, "max_votes_per_user")
	delete(want, "MAX_VOTES_PER_USER")
	want["options.json"] = strings.Replace(want["options.json"], `"maxVotesPerUser":3,`, "", 1)
	if diff := cmp.Diff(want, published(&spec)); diff != "" {
		t.Errorf("without maxVotesPerUser (-want +got):\n%s", diff)
	}
}

// liveOf is the ConfigMap as the API server has it after it was applied for vc.
func liveOf(vc *votingv1alpha1.VoteConfig, at time.Time) *corev1.ConfigMap {
	data := published(&vc.Spec)
	desired := configMap(vc, data, nil, at)
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: *desired.Name, Namespace: *desired.Namespace, Labels: desired.Labels, Annotations: desired.Annotations,
			OwnerReferences: []metav1.OwnerReference{{Kind: ownerKind, Name: vc.Name, UID: vc.UID, Controller: new(true)}},
		},
		Data: data,
	}
}

func vote() *votingv1alpha1.VoteConfig {
	return &votingv1alpha1.VoteConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "vote", UID: "uid", Generation: 1},
		Spec:       votingv1alpha1.VoteConfigSpec{Title: "T", ResultsTitle: "R", Options: options("Cats", "Dogs", "Birds")},
	}
}

// TestStamp holds that the time of publication changes with the published data only.
func TestStamp(t *testing.T) {
	for name, tc := range map[string]struct {
		live    func(*corev1.ConfigMap) *corev1.ConfigMap
		vc      func(*votingv1alpha1.VoteConfig)
		changes bool
		want    string
	}{
		"none":    {live: func(*corev1.ConfigMap) *corev1.ConfigMap { return nil }, changes: true, want: "2026-11-20T13:00:00Z first"},
		"equal":   {want: "2026-11-20T12:00:00Z first"},
		"changed": {vc: func(v *votingv1alpha1.VoteConfig) { v.Spec.Options[0].Label = "Apes" }, changes: true, want: "2026-11-20T13:00:00Z"},
		"option removed": {
			vc: func(v *votingv1alpha1.VoteConfig) { v.Spec.Options = v.Spec.Options[:2] }, changes: true, want: "2026-11-20T13:00:00Z",
		},
		"a foreign key": {
			live: func(m *corev1.ConfigMap) *corev1.ConfigMap { m.Data["option_z"] = "Zebras"; return m }, want: "2026-11-20T12:00:00Z first",
		},
		"drift": {
			live:    func(m *corev1.ConfigMap) *corev1.ConfigMap { m.Data["option_a"] = "Zebras"; return m },
			changes: true, want: "2026-11-20T12:00:00Z first",
		},
		"drift by deletion": {
			live:    func(m *corev1.ConfigMap) *corev1.ConfigMap { delete(m.Data, "option_a"); return m },
			changes: true, want: "2026-11-20T12:00:00Z first",
		},
	} {
		t.Run(name, func(t *testing.T) {
			vc := vote()
			live := liveOf(vc, now)
			if tc.live != nil {
				live = tc.live(live)
			}
			if tc.vc != nil {
				tc.vc(vc)
			}
			data := published(&vc.Spec)
			if got := live == nil || changes(live, data); got != tc.changes {
				t.Errorf("changes is %v", got)
			}
			if got := configMap(vc, data, live, now.Add(time.Hour)).Annotations[rollout.PublishedAnnotation]; got != tc.want {
				t.Errorf("stamp %q, want %q", got, tc.want)
			}
		})
	}
}

func TestOwned(t *testing.T) {
	vc := vote()
	for name, tc := range map[string]struct {
		change func(*corev1.ConfigMap)
		want   bool
	}{
		"ours":            {func(*corev1.ConfigMap) {}, true},
		"of a former one": {func(m *corev1.ConfigMap) { m.OwnerReferences[0].UID = "old" }, false},
		"of another":      {func(m *corev1.ConfigMap) { m.OwnerReferences[0].Name, m.OwnerReferences[0].UID = "other", "other" }, false},
		"an orphan":       {func(m *corev1.ConfigMap) { m.OwnerReferences = nil }, true},
		"an orphan of another": {func(m *corev1.ConfigMap) {
			m.OwnerReferences, m.Labels = nil, map[string]string{reconciler.LabelOwnerKind: "AppConfig", reconciler.LabelOwnerName: "vote"}
		}, false},
		"foreign": {func(m *corev1.ConfigMap) { m.OwnerReferences, m.Labels = nil, nil }, false},
	} {
		live := liveOf(vc, now)
		tc.change(live)
		if got := owned(vc, live); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestObject(t *testing.T) {
	vc := vote()
	vc.Spec.Target.ConfigMapName = "settings"
	if diff := cmp.Diff(rollout.Object{Kind: "ConfigMap", Target: "settings", Name: "settings"}, object(vc, nil)); diff != "" {
		t.Errorf("without a ConfigMap (-want +got):\n%s", diff)
	}
	live := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{rollout.PublishedAnnotation: "then"}},
		Data:       map[string]string{"a": "1"}, BinaryData: map[string][]byte{"b": {2}},
	}
	want := rollout.Object{
		Kind: "ConfigMap", Target: "settings", Name: "settings", Exists: true, PublishedAt: "then", Data: map[string][]byte{"a": []byte("1"), "b": {2}},
	}
	if diff := cmp.Diff(want, object(vc, live)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPolicy(t *testing.T) {
	vc := vote()
	vc.Spec.Target.Deployments = []string{"vote", "result"}
	for mode, want := range map[votingv1alpha1.RestartMode]struct{ disabled, ignoreMounts bool }{
		"Env": {}, "Mount": {ignoreMounts: true}, "None": {disabled: true},
	} {
		vc.Spec.Target.Mode = mode
		got := policy(vc)
		if got.Disabled != want.disabled || got.IgnoreMounts != want.ignoreMounts || got.MaxConcurrent != 1 {
			t.Errorf("%s: %+v", mode, got)
		}
		if diff := cmp.Diff([]rollout.Target{{Kind: "Deployment", Name: "vote"}, {Kind: "Deployment", Name: "result"}}, got.Targets); diff != "" {
			t.Errorf("%s (-want +got):\n%s", mode, diff)
		}
	}
}
