package voteconfig

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distribution/reference"

	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	votingv1alpha1 "github.com/fettle-dev/fettle/api/voting/v1alpha1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/rollout"
)

const maxDependentMessage = 256

// summarized are the conditions that Ready summarizes, the most important first.
var summarized = []string{votingv1alpha1.VoteConfigPublished, votingv1alpha1.VoteConfigRolledOut}

// setStatus reports that the options are published in live, and the state of the workloads that use it. hidden says which options
// are not shown; "" if all are.
func setStatus(vc *votingv1alpha1.VoteConfig, live *corev1.ConfigMap, report rollout.Report, hidden string) {
	st := &vc.Status
	st.OptionsSummary, st.OptionCount = summary(vc.Spec.Options), int32(len(vc.Spec.Options))
	st.ConfigMapName, st.ConfigMapRef = live.Name, &fettlev1.LocalReference{Name: live.Name}
	if hash := live.Annotations[annotationHash]; st.Hash != hash || st.LastUpdated.IsZero() {
		st.Hash, st.LastUpdated = hash, updated(live)
	}
	st.Dependents = dependents(report)
	conditions.Set(vc, votingv1alpha1.VoteConfigPublished, metav1.ConditionTrue, votingv1alpha1.ReasonPublished,
		fmt.Sprintf("ConfigMap %q holds the options", live.Name))
	conditions.Set(vc, votingv1alpha1.VoteConfigRolledOut, report.Condition.Status, report.Condition.Reason, report.Condition.Message)
	summarize(vc, hidden)
}

// updated is the time of the last change of live's data, from the engine's annotation.
func updated(live *corev1.ConfigMap) metav1.Time {
	text, _, _ := strings.Cut(live.Annotations[rollout.PublishedAnnotation], " ")
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return live.CreationTimestamp // the annotation was tampered with
	}
	return metav1.NewTime(at)
}

// setPublishFailed reports why the options could not be published.
func setPublishFailed(vc *votingv1alpha1.VoteConfig, err error) {
	reason, message := apply.Reason(err), err.Error()
	if reason == fettlev1.ReasonNameConflict {
		message += ", or choose another name in spec.target.configMapName of a new VoteConfig"
	}
	conditions.Set(vc, votingv1alpha1.VoteConfigPublished, metav1.ConditionFalse, reason, message)
	conditions.Set(vc, votingv1alpha1.VoteConfigRolledOut, metav1.ConditionUnknown, fettlev1.ReasonReconciling, "unknown until the options are published")
	summarize(vc, "")
}

// summarize sets Ready, the phase and Stalled. hidden says which options are not shown; "" if all are.
func summarize(vc *votingv1alpha1.VoteConfig, hidden string) {
	st := &vc.Status
	st.ObservedGeneration = vc.Generation
	conditions.Summarize(vc, summarized...)
	if hidden != "" && conditions.ReadyOf(vc).Status == metav1.ConditionTrue {
		conditions.Set(vc, fettlev1.Ready, metav1.ConditionTrue, votingv1alpha1.ReasonOptionsNotShown, hidden)
	}
	st.Phase = phase(conditions.ReadyOf(vc))
	conditions.SetStalled(vc, st.Phase == votingv1alpha1.PhaseFailed)
}

// setPaused reports which options stay published.
func setPaused(vc *votingv1alpha1.VoteConfig) {
	published := "nothing is published yet"
	if vc.Status.ConfigMapName != "" {
		published = fmt.Sprintf("ConfigMap %q keeps the options %s", vc.Status.ConfigMapName, vc.Status.OptionsSummary)
	}
	conditions.SetPaused(vc, published)
}

func phase(ready metav1.Condition) votingv1alpha1.VoteConfigPhase {
	switch {
	case ready.Status == metav1.ConditionTrue:
		return votingv1alpha1.PhaseRunning
	case ready.Status == metav1.ConditionUnknown:
		return votingv1alpha1.PhasePending
	case slices.Contains(progress, ready.Reason):
		return votingv1alpha1.PhaseRollingOut
	case ready.Reason == votingv1alpha1.ReasonRolloutFailed:
		return votingv1alpha1.PhaseFailed
	default:
		return votingv1alpha1.PhaseDegraded
	}
}

// progress are the reasons of Ready that report a rollout in progress.
var progress = []string{votingv1alpha1.ReasonRollingOut, votingv1alpha1.ReasonDebouncing}

func dependents(report rollout.Report) []votingv1alpha1.VoteConfigDependent {
	var out []votingv1alpha1.VoteConfigDependent
	listed, _ := report.Bounded() // RolledOut tells how many there are
	for _, d := range listed {
		out = append(out, votingv1alpha1.VoteConfigDependent{
			Kind: d.Kind, Name: d.Name, Hash: d.Hash, State: votingv1alpha1.DependentState(d.State), Message: conditions.Clip(d.Message, maxDependentMessage),
		})
	}
	return out
}

// stockImage is the repository of an image that reads only OPTION_A and OPTION_B.
const stockImage = "dockersamples/examplevotingapp_vote"

// unsupportedOptions are the ids of the options that the stock image does not show.
func unsupportedOptions(options []votingv1alpha1.VoteOption) []string {
	var ids []string
	for _, o := range options {
		if o.ID != "a" && o.ID != "b" {
			ids = append(ids, o.ID)
		}
	}
	return ids
}

// hiddenOptions says that d, with these images, does not show the options with these ids; "" if it does.
func hiddenOptions(ids []string, d rollout.Dependent, images []string) string {
	i := slices.IndexFunc(images, isStock)
	if i < 0 || len(ids) == 0 {
		return ""
	}
	return fmt.Sprintf("%s %q runs %s, which shows only the options a and b, not %s: use an image that reads all of OPTION_A to OPTION_Z",
		d.Kind, d.Name, images[i], strings.Join(ids, ", "))
}

// isStock reports whether an image reference names the stock image, in any registry.
func isStock(image string) bool {
	named, err := reference.ParseNormalizedNamed(image)
	return err == nil && strings.HasSuffix("/"+reference.Path(named), "/"+stockImage)
}

// readyNote is the note of the event of a VoteConfig that became Ready.
func readyNote(vc *votingv1alpha1.VoteConfig) string {
	return fmt.Sprintf("ConfigMap %q holds the options %s", vc.Status.ConfigMapName, vc.Status.OptionsSummary)
}

func created(_, before *votingv1alpha1.VoteConfig) bool { return before.Status.Hash == "" }
