package backupjob

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/podproblem"
)

// Run is a BackupRun or a Restore. The pointers point into its status.
type Run struct {
	conditions.Object
	Phase                     *backupv1alpha1.RunPhase
	StartTime, CompletionTime **metav1.Time
	// Result is what the pod reported; nil if it did not.
	Result   *backupv1alpha1.RunResult
	Location *string
}

// RunOf returns a BackupRun as a Run.
func RunOf(r *backupv1alpha1.BackupRun) Run {
	st := &r.Status
	return Run{r, &st.Phase, &st.StartTime, &st.CompletionTime, st.Result, &st.Location}
}

// RestoreOf returns a Restore as a Run.
func RestoreOf(r *backupv1alpha1.Restore) Run {
	st := &r.Status
	return Run{r, &st.Phase, &st.StartTime, &st.CompletionTime, st.Result, &st.Location}
}

// HasEnded reports whether a run in this phase does nothing any more.
func HasEnded(phase backupv1alpha1.RunPhase) bool {
	return phase == backupv1alpha1.RunSucceeded || phase == backupv1alpha1.RunFailed
}

// verdict is what became of a Job so far.
type verdict struct {
	phase           backupv1alpha1.RunPhase
	reason, message string
}

// judge says what became of a Job: a run has succeeded if the Job is complete and the pod has reported success, not with one of the two.
func judge(j *batchv1.Job, result *backupv1alpha1.RunResult, pods []corev1.Pod) verdict {
	complete, failed := condition(j, batchv1.JobComplete), condition(j, batchv1.JobFailed)
	if failed == nil {
		// A Job with a pod on a lost node gets the condition Failed only when the node comes back or is removed.
		failed = condition(j, batchv1.JobFailureTarget)
	}
	reported := result != nil && result.Reason == backupv1alpha1.ReasonSucceeded
	switch {
	case failed != nil && failed.Reason == batchv1.JobReasonDeadlineExceeded:
		return verdict{backupv1alpha1.RunFailed, backupv1alpha1.ReasonDeadlineExceeded,
			fmt.Sprintf("Job %s was stopped after timeoutSeconds: raise timeoutSeconds, or find out why it is slow%s", j.Name, problemOf(pods, "; "))}
	case failed != nil && result != nil && !reported:
		return verdict{backupv1alpha1.RunFailed, result.Reason, result.Message}
	case failed != nil:
		return lost(j, pods)
	case complete != nil && reported:
		return verdict{backupv1alpha1.RunSucceeded, backupv1alpha1.ReasonSucceeded, ""}
	case complete != nil:
		return verdict{backupv1alpha1.RunFailed, backupv1alpha1.ReasonRunFailed,
			fmt.Sprintf("Job %s is complete, and its pod reported no success: read its logs by kubectl logs job/%s", j.Name, j.Name)}
	}
	return verdict{backupv1alpha1.RunRunning, backupv1alpha1.ReasonRunning, fmt.Sprintf("Job %s runs%s", j.Name, problemOf(pods, ": "))}
}

// lost says why the pods of a failed Job did not report: they were stopped from outside, or the program crashed.
func lost(j *batchv1.Job, pods []corev1.Pod) verdict {
	for i := range pods {
		if why := interrupted(&pods[i]); why != "" {
			return verdict{backupv1alpha1.RunFailed, backupv1alpha1.ReasonPodLost,
				fmt.Sprintf("pod %s was stopped before it ended (%s): run kubectl describe job %s", pods[i].Name, why, j.Name)}
		}
	}
	if len(pods) == 0 {
		return verdict{backupv1alpha1.RunFailed, backupv1alpha1.ReasonPodLost,
			fmt.Sprintf("Job %s failed, and its pods are gone: run kubectl describe job %s", j.Name, j.Name)}
	}
	return verdict{backupv1alpha1.RunFailed, backupv1alpha1.ReasonRunFailed,
		fmt.Sprintf("Job %s failed without a report: read its logs by kubectl logs job/%s", j.Name, j.Name)}
}

// interrupted says what stopped a pod from outside; "" if nothing did.
func interrupted(pod *corev1.Pod) string {
	if c := podproblem.Condition(pod, corev1.DisruptionTarget); c != nil && c.Status == corev1.ConditionTrue {
		return cmp.Or(c.Reason, "Disrupted")
	}
	if pod.Status.Reason != "" {
		return pod.Status.Reason // such as Evicted or NodeLost
	}
	for _, c := range pod.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil && t.Reason == "OOMKilled" {
			return "out of memory: raise pod.resources.limits.memory"
		}
	}
	return ""
}

// problemOf says after a separator why the newest pod does not run; "" if it does.
func problemOf(pods []corev1.Pod, separator string) string {
	if len(pods) == 0 {
		return ""
	}
	newest := slices.MaxFunc(pods, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	if newest.Status.Phase != corev1.PodPending {
		return ""
	}
	if p := podproblem.Of(&newest); p != nil {
		return separator + p.Message
	}
	return ""
}

func condition(j *batchv1.Job, conditionType batchv1.JobConditionType) *batchv1.JobCondition {
	i := slices.IndexFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == conditionType && c.Status == corev1.ConditionTrue
	})
	if i < 0 {
		return nil
	}
	return &j.Status.Conditions[i]
}

// Report sets the phase and the condition Ready of a run that has no Job.
func (r *Run) Report(phase backupv1alpha1.RunPhase, reason, message string, now time.Time) {
	r.set(verdict{phase, reason, message}, now)
}

// set reports a verdict in the status of the run.
func (r *Run) set(v verdict, now time.Time) {
	status, stalled := metav1.ConditionFalse, v.phase == backupv1alpha1.RunFailed
	if v.phase == backupv1alpha1.RunSucceeded {
		status = metav1.ConditionTrue
		if r.Result != nil {
			*r.Location, v.message = r.Result.Location, cmp.Or(v.message, r.Result.RetentionMessage)
		}
	}
	if HasEnded(v.phase) && (*r.CompletionTime).IsZero() {
		*r.CompletionTime = &metav1.Time{Time: now.Truncate(time.Second)}
	}
	conditions.Set(r.Object, fettlev1.Ready, status, cmp.Or(v.reason, backupv1alpha1.ReasonRunFailed), v.message)
	conditions.SetStalled(r.Object, stalled)
	r.SetObserved(string(v.phase))
}
