package voteconfig

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	votingv1alpha1 "github.com/fettle-dev/fettle/api/voting/v1alpha1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/rollout"
)

func reportOf(status metav1.ConditionStatus, reason string) rollout.Report {
	return rollout.Report{Condition: metav1.Condition{Status: status, Reason: reason, Message: "as the engine says"}}
}

// said is the status in a few words: phase, and each condition.
func said(vc *votingv1alpha1.VoteConfig) string {
	text := string(vc.Status.Phase)
	for _, kind := range []string{"Ready", "Published", "RolledOut"} {
		if c := meta.FindStatusCondition(vc.Status.Conditions, kind); c != nil {
			text += ", " + kind + "=" + string(c.Status) + " " + c.Reason
		}
	}
	return text
}

func TestStatus(t *testing.T) {
	for name, tc := range map[string]struct {
		report       rollout.Report
		want, hidden string
	}{
		"no workload":     {report: reportOf("True", "NoDependents"), want: "Running, Ready=True Ready, Published=True Published, RolledOut=True NoDependents"},
		"rolled out":      {report: reportOf("True", "RolledOut"), want: "Running, Ready=True Ready, Published=True Published, RolledOut=True RolledOut"},
		"rolling out":     {report: reportOf("False", "RollingOut"), want: "RollingOut, Ready=False RollingOut, Published=True Published, RolledOut=False RollingOut"},
		"debouncing":      {report: reportOf("False", "Debouncing"), want: "RollingOut, Ready=False Debouncing, Published=True Published, RolledOut=False Debouncing"},
		"failed":          {report: reportOf("False", "RolloutFailed"), want: "Failed, Ready=False RolloutFailed, Published=True Published, RolledOut=False RolloutFailed"},
		"a person":        {report: reportOf("False", "ManualRestart"), want: "Degraded, Ready=False ManualRestart, Published=True Published, RolledOut=False ManualRestart"},
		"unknown":         {report: reportOf("Unknown", "Reconciling"), want: "Pending, Ready=Unknown Reconciling, Published=True Published, RolledOut=Unknown Reconciling"},
		"the stock app":   {reportOf("True", "RolledOut"), "Running, Ready=True OptionsNotShown, Published=True Published, RolledOut=True RolledOut", "not c"},
		"a failure first": {reportOf("False", "RolloutFailed"), "Failed, Ready=False RolloutFailed, Published=True Published, RolledOut=False RolloutFailed", "not c"},
	} {
		t.Run(name, func(t *testing.T) {
			vc := vote()
			setStatus(vc, liveOf(vc, now), tc.report, tc.hidden)
			if got := said(vc); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if vc.Status.ObservedGeneration != 1 || vc.Status.OptionsSummary != "Cats,Dogs,Birds" || vc.Status.OptionCount != 3 ||
				vc.Status.ConfigMapName != "vote-config" || vc.Status.ConfigMapRef.Name != "vote-config" {
				t.Errorf("status %+v", vc.Status)
			}
			for _, c := range vc.Status.Conditions {
				if c.ObservedGeneration != 1 {
					t.Errorf("%s is about generation %d", c.Type, c.ObservedGeneration)
				}
			}
		})
	}
}

func TestLastUpdated(t *testing.T) {
	vc := vote()
	setStatus(vc, liveOf(vc, now), reportOf("True", "RolledOut"), "")
	first := vc.Status
	if !first.LastUpdated.Equal(&metav1.Time{Time: now}) || first.Hash != hashOf(published(&vc.Spec)) {
		t.Errorf("status %+v", first)
	}
	setStatus(vc, liveOf(vc, now.Add(time.Hour)), reportOf("True", "RolledOut"), "")
	if !vc.Status.LastUpdated.Equal(&first.LastUpdated) {
		t.Error("lastUpdated changed though the data did not")
	}
	vc.Spec.Options[0].Color = "#FFFFFF"
	setStatus(vc, liveOf(vc, now.Add(2*time.Hour)), reportOf("True", "RolledOut"), "")
	if !vc.Status.LastUpdated.Time.Equal(now.Add(2*time.Hour)) || vc.Status.Hash == first.Hash {
		t.Errorf("the data changed: status %+v", vc.Status)
	}
	vc.Status = votingv1alpha1.VoteConfigStatus{}
	live := liveOf(vc, now)
	live.Annotations[rollout.PublishedAnnotation], live.CreationTimestamp = "nonsense", metav1.NewTime(now.Add(-time.Hour))
	setStatus(vc, live, reportOf("True", "RolledOut"), "")
	if !vc.Status.LastUpdated.Time.Equal(now.Add(-time.Hour)) {
		t.Errorf("without a time: %s", vc.Status.LastUpdated)
	}
}

func TestSetPublishFailed(t *testing.T) {
	resource := schema.GroupResource{Resource: "configmaps"}
	for name, tc := range map[string]struct {
		err           error
		want, message string
	}{
		"conflict": {
			&apply.ConflictError{OwnerKind: "VoteConfig", GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Name: "vote-config"},
			"Degraded, Ready=False NameConflict, Published=False NameConflict, RolledOut=Unknown Reconciling", "spec.target.configMapName",
		},
		"invalid":   {apierrors.NewBadRequest("no"), "Degraded, Ready=False Invalid, Published=False Invalid, RolledOut=Unknown Reconciling", "no"},
		"forbidden": {apierrors.NewForbidden(resource, "x", errors.New("quota")), "Degraded, Ready=False Forbidden, Published=False Forbidden, RolledOut=Unknown Reconciling", "quota"},
		"other":     {errors.New("no answer"), "Degraded, Ready=False WriteFailed, Published=False WriteFailed, RolledOut=Unknown Reconciling", "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			vc := vote()
			setPublishFailed(vc, tc.err)
			if got := said(vc); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if ready := meta.FindStatusCondition(vc.Status.Conditions, fettlev1.Ready); !strings.Contains(ready.Message, tc.message) {
				t.Errorf("message %q", ready.Message)
			}
			if vc.Status.ConfigMapName != "" {
				t.Errorf("status names ConfigMap %q, which is not its own", vc.Status.ConfigMapName)
			}
		})
	}
}

func TestPausedAndTerminating(t *testing.T) {
	vc := vote()
	setPaused(vc)
	if got := said(vc); got != "Paused, Ready=Unknown Paused" {
		t.Error(got)
	}
	conditions.SetTerminating(vc)
	if got := said(vc); got != "Terminating, Ready=False Terminating" {
		t.Error(got)
	}
}

func TestDependents(t *testing.T) {
	got := dependents(rollout.Report{Dependents: []rollout.Dependent{
		{Kind: "Deployment", Name: "a", Hash: "1", State: rollout.UpToDate}, {Kind: "Deployment", Name: "b", State: rollout.Pending, Message: strings.Repeat("ä", 200)},
		{Kind: "DaemonSet", Name: "c", State: rollout.Restarting}, {Kind: "StatefulSet", Name: "d", State: rollout.Failed, Message: "why"},
		{Kind: "StatefulSet", Name: "e", State: rollout.Paused},
	}})
	want := []votingv1alpha1.VoteConfigDependent{
		{Kind: "Deployment", Name: "a", Hash: "1", State: "UpToDate"}, {Kind: "Deployment", Name: "b", State: "Pending", Message: strings.Repeat("ä", 128)},
		{Kind: "DaemonSet", Name: "c", State: "Restarting"}, {Kind: "StatefulSet", Name: "d", State: "Failed", Message: "why"},
		{Kind: "StatefulSet", Name: "e", State: "Paused"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHiddenOptions(t *testing.T) {
	two, three := options("Cats", "Dogs"), options("Cats", "Dogs", "Birds")
	for name, tc := range map[string]struct {
		options []votingv1alpha1.VoteOption
		images  []string
		want    string
	}{
		"two":               {two, []string{stockImage}, ""},
		"three":             {three, []string{"nginx", stockImage}, `Deployment "vote" runs ` + stockImage + ", which shows only the options a and b, not c"},
		"other letters":     {[]votingv1alpha1.VoteOption{{ID: "x"}, {ID: "y"}}, []string{stockImage + ":v1"}, "not x, y"},
		"a mirror":          {three, []string{"registry.example.com:5000/" + stockImage + ":v1@sha256:" + strings.Repeat("0", 64)}, "not c"},
		"docker.io":         {three, []string{"docker.io/" + stockImage}, "not c"},
		"another image":     {three, []string{"example/vote"}, ""},
		"a similar name":    {three, []string{stockImage + "r"}, ""},
		"a similar owner":   {three, []string{"my" + stockImage}, ""},
		"nothing":           {three, nil, ""},
		"the result's page": {three, []string{"dockersamples/examplevotingapp_result"}, ""},
	} {
		got := hiddenOptions(unsupportedOptions(tc.options), rollout.Dependent{Kind: "Deployment", Name: "vote"}, tc.images)
		if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
