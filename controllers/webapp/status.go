package webapp

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/optionalapi"
	"github.com/fettle-dev/fettle/internal/podproblem"
	"github.com/fettle-dev/fettle/internal/rollout"
)

const (
	// quotaText is in the message of the API server that rejects a pod because of a quota.
	quotaText     = "exceeded quota"
	quotaExceeded = "QuotaExceeded"
)

// observed is the state of the children after they were applied.
type observed struct {
	// deployment is nil if there is none.
	deployment *k8sappsv1.Deployment
	// stale is true if deployment is older than the last write.
	stale bool
	pods  []corev1.Pod
	// publication is the state of the Service, the Ingress and the HTTPRoute.
	publication publication
	// applyErr is the reason why a child could not be written.
	applyErr error
}

// setStatus sets app's status from the observed state.
func setStatus(app *appsv1.WebApp, in inputs, p plan, seen observed) {
	st := &app.Status
	st.ObservedGeneration = app.Generation
	st.Selector = k8slabels.SelectorFromSet(selector(app)).String()
	st.URL = url(app, in, seen)
	count(st, seen.deployment)

	serves, failed := available(app, in, p, seen)
	if st.FailedRevision != p.own.hash {
		st.FailedRevision, st.FailureMessage = "", ""
	}
	if failed && canRollBack(app, in, p) {
		st.FailedRevision = p.own.hash
		st.FailureMessage = conditions.Clip(fmt.Sprintf("%s: %s", serves.Reason, serves.Message), conditions.MaxMessage)
	}
	if serves.Status == metav1.ConditionTrue && serves.Reason == appsv1.ReasonAvailable {
		st.LastGoodImage = st.Image
	}
	conditions.SetState(app, appsv1.WebAppConfigResolved, len(app.Spec.ConfigRefs) > 0, configResolved(app, in))
	conditions.SetState(app, appsv1.WebAppApplied, true, applied(app, in, p, seen))
	conditions.SetState(app, appsv1.WebAppAvailable, true, serves)
	conditions.SetState(app, appsv1.WebAppPublished, app.Spec.Ingress != nil || app.Spec.Gateway != nil, published(app, in, seen))
	conditions.SetState(app, appsv1.WebAppMonitored, app.Spec.Monitoring != nil, monitored(in, seen))
	conditions.Summarize(app, present(st.Conditions)...)
	st.Phase = phase(st.Conditions, failed)
	conditions.SetStalled(app, st.Phase == appsv1.PhaseFailed, terminal...)
}

// terminal are the reasons of Ready, besides those of all kinds, that only a change of the spec or of another object resolves.
var terminal = []string{appsv1.ReasonAutoscalerConflict, appsv1.ReasonRolledBack}

// summarized are the conditions that Ready summarizes, the most important first.
var summarized = []string{
	appsv1.WebAppConfigResolved, appsv1.WebAppApplied, appsv1.WebAppAvailable, appsv1.WebAppPublished, appsv1.WebAppMonitored,
}

// present omits the conditions that do not apply to the WebApp, and a pending address: some controllers never set one.
func present(conds []metav1.Condition) []string {
	return slices.DeleteFunc(slices.Clone(summarized), func(t string) bool {
		c := meta.FindStatusCondition(conds, t)
		return c == nil || c.Reason == appsv1.ReasonAddressPending
	})
}

// setPaused reports whether the pods are available. The other conditions keep the state that was found before the pause, of
// whatever generation.
func setPaused(app *appsv1.WebApp, seen observed) {
	st := &app.Status
	count(st, seen.deployment)
	state := conditions.False(appsv1.ReasonUnavailable, "the Deployment does not exist, and Fettle does not create it while spec.paused is true")
	if seen.deployment != nil {
		state, _ = rolloutState(app, plan{autoscaled: scalingBounds(app, nil)}, seen)
	}
	conditions.SetState(app, appsv1.WebAppAvailable, true, state)
	ready := conditions.Worst(st.Conditions, 0, present(st.Conditions)...)
	conditions.SetState(app, fettlev1.Ready, true, conditions.State{Status: ready.Status})
	conditions.SetPaused(app, state.Message)
}

func count(st *appsv1.WebAppStatus, d *k8sappsv1.Deployment) {
	if d == nil {
		st.Replicas, st.UpdatedReplicas, st.ReadyReplicas, st.AvailableReplicas = 0, 0, 0, 0
		st.Image, st.CurrentRevision = "", ""
		return
	}
	st.Replicas = d.Status.Replicas
	st.UpdatedReplicas = d.Status.UpdatedReplicas
	st.ReadyReplicas = d.Status.ReadyReplicas
	st.AvailableReplicas = d.Status.AvailableReplicas
	st.CurrentRevision = d.Spec.Template.Annotations[annotationRevision]
	for i := range d.Spec.Template.Spec.Containers {
		if c := &d.Spec.Template.Spec.Containers[i]; c.Name == mainContainer {
			st.Image = c.Image
		}
	}
}

func configResolved(app *appsv1.WebApp, in inputs) conditions.State {
	ref := configMissing(in.config)
	if ref != nil && ref.Kind == kindAppConfig {
		return conditions.False(appsv1.ReasonConfigMissing, fmt.Sprintf(
			"spec.configRefs: AppConfig %q does not exist in namespace %q, or has published nothing yet: see kubectl get appconfig %s, or mark the reference optional",
			ref.Name, app.Namespace, ref.Name))
	}
	if ref != nil {
		return conditions.False(appsv1.ReasonConfigMissing, fmt.Sprintf(
			"spec.configRefs: %s %q does not exist in namespace %q: create it, or mark the reference optional", ref.Kind, ref.Name, app.Namespace))
	}
	return conditions.True(appsv1.ReasonResolved, "all references exist")
}

func applied(app *appsv1.WebApp, in inputs, p plan, seen observed) conditions.State {
	if seen.applyErr != nil {
		return conditions.False(apply.Reason(seen.applyErr), seen.applyErr.Error())
	}
	if rolledBack(app, p.own, in.good) {
		return conditions.False(appsv1.ReasonRolledBack, fmt.Sprintf("image %q did not become ready (%s); image %q runs again until the spec changes",
			p.own.image, app.Status.FailureMessage, p.running.image))
	}
	if p.waitingForRefs {
		return conditions.Unknown(appsv1.ReasonConfigMissing, "the pod template does not change until all references exist; the number of pods follows spec.replicas")
	}
	if in.foreign != nil && app.Spec.Autoscaling != nil {
		return conditions.False(appsv1.ReasonAutoscalerConflict, fmt.Sprintf("spec.autoscaling and HorizontalPodAutoscaler %q both scale Deployment %q, and Kubernetes ignores both: remove one of the two",
			in.foreign.Name, app.Name))
	}
	if in.foreign != nil {
		return conditions.True(appsv1.ReasonForeignAutoscaler, fmt.Sprintf("HorizontalPodAutoscaler %q sets the replicas of Deployment %q, and spec.replicas is ignored: "+
			"use spec.autoscaling instead, or let it scale the WebApp (scaleTargetRef: apiVersion %s, kind WebApp, name %s)",
			in.foreign.Name, app.Name, appsv1.GroupVersion, app.Name))
	}
	return conditions.True(appsv1.ReasonApplied, "all child objects match the spec")
}

// available returns the state of the Deployment. failed is true if its rollout has ended without success.
func available(app *appsv1.WebApp, in inputs, p plan, seen observed) (v conditions.State, failed bool) {
	d := seen.deployment
	switch {
	case d == nil && p.waitingForRefs:
		return conditions.Unknown(appsv1.ReasonConfigMissing, "no pod starts until all references exist"), false
	case d == nil && seen.applyErr != nil:
		return conditions.Unknown(fettlev1.ReasonReconciling, "the Deployment does not exist"), false
	case d == nil || seen.stale || d.Status.ObservedGeneration < d.Generation ||
		(!p.held() && d.Spec.Template.Annotations[annotationRevision] != p.running.hash):
		return conditions.False(appsv1.ReasonRollingOut, "pods of the current pod template are starting"), false
	}
	if revisionUnrecorded(app, in, d) {
		return conditions.False(appsv1.ReasonRollingOut, "recording the current pod template for a rollback"), false
	}
	if v, failed = rolloutState(app, p, seen); failed && in.good != nil && in.good.hash == p.running.hash {
		v.Message += configFailed(d)
	}
	return v, failed
}

// configFailed returns advice for pods that were ready with this pod template before: no other template helps.
func configFailed(d *k8sappsv1.Deployment) string {
	changed := rollout.LastRestart(d.Annotations, d.Spec.Template.Annotations)
	if changed == "" {
		return ""
	}
	return fmt.Sprintf("; these pods were ready before they restarted for a change of %s: correct it, and they restart again. "+
		"No other workload restarts for it until then. autoRollback does not restore contents; use spec.rollback of an AppConfig", changed)
}

// revisionUnrecorded reports whether d became ready after the children were computed. The next reconcile records its pod template.
// Ready promises that a rollback to it is possible.
func revisionUnrecorded(app *appsv1.WebApp, in inputs, d *k8sappsv1.Deployment) bool {
	now := readyRevision(d)
	return app.Spec.Rollout.AutoRollback && now != "" && now != in.ready
}

// rolloutState returns the state of a Deployment whose status describes the desired pod template.
func rolloutState(app *appsv1.WebApp, p plan, seen observed) (v conditions.State, failed bool) {
	d := seen.deployment
	bad := podProblem(current(seen.pods, d))
	switch {
	case deadlineExceeded(d):
		return deadlineExceededState(app, bad), true
	case wanted(d) == 0 && complete(d):
		return conditions.True(appsv1.ReasonScaledToZero, "the desired number of pods is 0"), false
	case complete(d):
		return conditions.True(appsv1.ReasonAvailable, "all pods run the current pod template and are available"), false
	case p.autoscaled != nil && scaling(d, p.autoscaled.least):
		return conditions.True(appsv1.ReasonAvailable, "at least minReplicas pods run the current pod template and are available; the autoscaler sets their number"), false
	case replicaFailure(d) != nil:
		return *replicaFailure(d), false
	case bad != nil:
		return conditions.False(bad.Reason, bad.Message), false
	case replacing(d) || starting(seen.pods):
		return conditions.False(appsv1.ReasonRollingOut, "pods of the current pod template are starting"), false
	default:
		return conditions.False(appsv1.ReasonUnavailable, "pods that were ready no longer are: check kubectl describe pod -l app="+app.Name), false
	}
}

// deadlineExceededState is the state of a rollout that exceeded its deadline, with the problem of its pods if there is one.
func deadlineExceededState(app *appsv1.WebApp, bad *podproblem.Problem) conditions.State {
	message := fmt.Sprintf("no progress for %s (spec.rollout.progressDeadline)", app.Spec.Rollout.ProgressDeadline.Duration)
	if bad != nil {
		return conditions.False(bad.Reason, message+"; "+bad.Message)
	}
	return conditions.False(appsv1.ReasonProgressDeadlineExceeded, message)
}

func monitored(in inputs, seen observed) conditions.State {
	switch {
	case in.apis.Missing[optionalapi.ServiceMonitor.Kind]:
		return conditions.False(appsv1.ReasonAPIMissing, "spec.monitoring: the cluster has no ServiceMonitor API (monitoring.coreos.com/v1): install the Prometheus Operator, or remove the field")
	case seen.applyErr != nil:
		return conditions.Unknown(fettlev1.ReasonReconciling, "unknown until all child objects are applied")
	}
	return conditions.True(appsv1.ReasonMonitored, "the ServiceMonitor exists")
}

// canRollBack reports whether own failed and another pod template can replace it.
func canRollBack(app *appsv1.WebApp, in inputs, p plan) bool {
	return app.Spec.Rollout.AutoRollback && in.good != nil && in.good.hash != p.own.hash && p.running.hash == p.own.hash
}

func phase(conds []metav1.Condition, failed bool) appsv1.WebAppPhase {
	ready := meta.FindStatusCondition(conds, fettlev1.Ready)
	switch {
	case ready.Status == metav1.ConditionTrue:
		return appsv1.PhaseRunning
	case failed:
		return appsv1.PhaseFailed
	case ready.Reason == appsv1.ReasonConfigMissing:
		return appsv1.PhasePending
	case inProgress(ready.Reason), ready.Status == metav1.ConditionUnknown:
		return appsv1.PhaseDeploying
	default:
		return appsv1.PhaseDegraded
	}
}

// progress are the reasons of Ready that only mean that something is in progress.
var progress = []string{appsv1.ReasonRollingOut, appsv1.ReasonCertificatePending, appsv1.ReasonRoutePending}

func inProgress(reason string) bool { return slices.Contains(progress, reason) }

// statusDelay returns how long to delay the status write.
func (r *Reconciler) statusDelay(app, before *appsv1.WebApp) time.Duration {
	return r.Throttle.Delay(app, onlyProgress(app, before), onlyCounters(app, before))
}

func onlyProgress(app, before *appsv1.WebApp) bool {
	return inProgress(conditions.ReadyOf(app).Reason) && app.Status.FailedRevision == before.Status.FailedRevision
}

// onlyCounters reports whether only numbers of pods changed.
func onlyCounters(app, before *appsv1.WebApp) bool {
	a := app.Status.DeepCopy()
	a.Replicas, a.UpdatedReplicas, a.ReadyReplicas, a.AvailableReplicas = before.Status.Replicas,
		before.Status.UpdatedReplicas, before.Status.ReadyReplicas, before.Status.AvailableReplicas
	return equality.Semantic.DeepEqual(*a, before.Status)
}

// readyNote is the note of the event of a WebApp that became Ready. There is none if nothing runs, as the spec asks.
func readyNote(app *appsv1.WebApp) string {
	if app.Status.Replicas == 0 {
		return ""
	}
	return fmt.Sprintf("%s runs with %d pods", app.Status.Image, app.Status.AvailableReplicas)
}

func created(app, before *appsv1.WebApp) bool {
	return before.Status.LastGoodImage == "" && app.Status.LastGoodImage != ""
}

// complete reports whether the Deployment controller has observed the spec, and all pods run the current pod template and are
// available.
func complete(d *k8sappsv1.Deployment) bool {
	n := wanted(d)
	return d.Status.ObservedGeneration >= d.Generation &&
		d.Status.UpdatedReplicas == n && d.Status.Replicas == n && d.Status.AvailableReplicas == n
}

// replacing reports whether pods of the current pod template are missing, or older pods still exist.
func replacing(d *k8sappsv1.Deployment) bool {
	return d.Status.UpdatedReplicas < wanted(d) || d.Status.Replicas > d.Status.UpdatedReplicas
}

// scaling reports whether d has rolled out its pod template, and at least as many pods are available as the autoscaler's minimum.
// Pods that it just requested may still be starting.
func scaling(d *k8sappsv1.Deployment, least int32) bool {
	return d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas == d.Status.Replicas &&
		d.Status.AvailableReplicas >= min(least, wanted(d))
}

// readyRevision is the revision of d if its rollout is complete, otherwise "".
func readyRevision(d *k8sappsv1.Deployment) string {
	if d == nil || wanted(d) == 0 || !complete(d) {
		return ""
	}
	return d.Spec.Template.Annotations[annotationRevision]
}

func deadlineExceeded(d *k8sappsv1.Deployment) bool {
	c := deploymentCondition(d, k8sappsv1.DeploymentProgressing)
	return c != nil && c.Status == corev1.ConditionFalse && c.Reason == "ProgressDeadlineExceeded"
}

// replicaFailure says why pods can't be created; nil if they can.
func replicaFailure(d *k8sappsv1.Deployment) *conditions.State {
	c := deploymentCondition(d, k8sappsv1.DeploymentReplicaFailure)
	if c == nil || c.Status != corev1.ConditionTrue {
		return nil
	}
	reason := appsv1.ReasonReplicaFailure
	if strings.Contains(c.Message, quotaText) {
		reason = quotaExceeded
	}
	v := conditions.False(reason, fmt.Sprintf("pods can't be created: %s", c.Message))
	return &v
}

func deploymentCondition(d *k8sappsv1.Deployment, t k8sappsv1.DeploymentConditionType) *k8sappsv1.DeploymentCondition {
	for i := range d.Status.Conditions {
		if d.Status.Conditions[i].Type == t {
			return &d.Status.Conditions[i]
		}
	}
	return nil
}

// current returns the pods of d's current pod template, without the failed ones (evicted, or lost with their node) that were
// replaced. Kubernetes keeps those for inspection.
func current(pods []corev1.Pod, d *k8sappsv1.Deployment) []corev1.Pod {
	hash := d.Spec.Template.Annotations[annotationRevision]
	var out []corev1.Pod
	var newest time.Time
	for i := range pods {
		if pods[i].Annotations[annotationRevision] == hash {
			out = append(out, pods[i])
			newest = latest(newest, pods[i].CreationTimestamp.Time)
		}
	}
	return slices.DeleteFunc(out, func(p corev1.Pod) bool {
		return p.Status.Phase == corev1.PodFailed && p.CreationTimestamp.Time.Before(newest)
	})
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// neverReadyWithin is the time after a pod's creation within which its Ready condition is first written. A later transition means
// that the pod was ready once.
const neverReadyWithin = 10 * time.Second

// podProblem returns the problem of the first pod by name that has one; nil if the pods are ready or just starting.
func podProblem(pods []corev1.Pod) *podproblem.Problem {
	byName := slices.SortedFunc(slices.Values(pods), func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	for i := range byName {
		if p := podproblem.Of(&byName[i]); p != nil {
			return p
		}
	}
	return nil
}

// starting reports whether no unready pod was ever ready.
func starting(pods []corev1.Pod) bool {
	return !slices.ContainsFunc(pods, func(p corev1.Pod) bool {
		c := podproblem.Condition(&p, corev1.PodReady)
		return c != nil && c.Status != corev1.ConditionTrue && p.DeletionTimestamp == nil &&
			c.LastTransitionTime.Sub(p.CreationTimestamp.Time) > neverReadyWithin
	})
}
