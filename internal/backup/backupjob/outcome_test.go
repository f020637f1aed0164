package backupjob

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
)

func TestJudge(t *testing.T) {
	is := func(reason string, types ...batchv1.JobConditionType) *batchv1.Job {
		j := &batchv1.Job{}
		for _, c := range types {
			j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: c, Status: corev1.ConditionTrue, Reason: reason})
		}
		return j
	}
	reports := func(reason string) *backupv1alpha1.RunResult {
		return &backupv1alpha1.RunResult{Reason: reason, Message: "said so"}
	}
	pods := func(change func(*corev1.PodStatus)) []corev1.Pod {
		p := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed}}
		change(&p.Status)
		return []corev1.Pod{p}
	}
	crashed := pods(func(*corev1.PodStatus) {})
	const running, succeeded, failed = backupv1alpha1.RunRunning, backupv1alpha1.RunSucceeded, backupv1alpha1.RunFailed
	limit := is("BackoffLimitExceeded", batchv1.JobFailureTarget, batchv1.JobFailed)
	for name, c := range map[string]struct {
		job     *batchv1.Job
		result  *backupv1alpha1.RunResult
		pods    []corev1.Pod
		phase   backupv1alpha1.RunPhase
		reason  string
		message string
	}{
		"runs":                             {job: is(""), phase: running, reason: "Running"},
		"reported, still runs":             {job: is("", batchv1.JobSuccessCriteriaMet), result: reports("Succeeded"), phase: running, reason: "Running"},
		"the first attempt failed":         {job: is(""), result: reports("DumpFailed"), phase: running, reason: "Running"},
		"succeeded":                        {job: is("", batchv1.JobComplete), result: reports("Succeeded"), phase: succeeded, reason: "Succeeded"},
		"complete without a report":        {job: is("", batchv1.JobComplete), phase: failed, reason: "RunFailed", message: "reported no success"},
		"complete, failure reported":       {job: is("", batchv1.JobComplete), result: reports("DumpFailed"), phase: failed, reason: "RunFailed"},
		"failed with a report":             {job: limit, result: reports("StoreForbidden"), phase: failed, reason: "StoreForbidden", message: "said so"},
		"refused":                          {job: is("PodFailurePolicy", batchv1.JobFailed), result: reports("TargetNotEmpty"), phase: failed, reason: "TargetNotEmpty"},
		"deadline":                         {job: is("DeadlineExceeded", batchv1.JobFailed), result: reports("DumpFailed"), phase: failed, reason: "DeadlineExceeded"},
		"deadline, on a node that is lost": {job: is("DeadlineExceeded", batchv1.JobFailureTarget), phase: failed, reason: "DeadlineExceeded"},
		"failed, success was reported":     {job: limit, result: reports("Succeeded"), pods: crashed, phase: failed, reason: "RunFailed"},
		"crashed":                          {job: limit, pods: crashed, phase: failed, reason: "RunFailed", message: "read its logs"},
		"pods are gone":                    {job: limit, phase: failed, reason: "PodLost"},
		"evicted":                          {job: limit, phase: failed, reason: "PodLost", message: "Evicted", pods: pods(func(s *corev1.PodStatus) { s.Reason = "Evicted" })},
		"disrupted": {job: limit, phase: failed, reason: "PodLost", message: "PreemptionByScheduler", pods: pods(func(s *corev1.PodStatus) {
			s.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "PreemptionByScheduler"}}
		})},
		"out of memory": {job: limit, phase: failed, reason: "PodLost", message: "raise pod.resources.limits.memory", pods: pods(func(s *corev1.PodStatus) {
			s.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled"}}}}
		})},
		"cannot pull its image": {job: is(""), phase: running, reason: "Running", message: "cannot pull image", pods: pods(func(s *corev1.PodStatus) {
			s.Phase = corev1.PodPending
			s.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}}}
		})},
	} {
		v := judge(c.job, c.result, c.pods)
		if v.phase != c.phase || v.reason != c.reason || !strings.Contains(v.message, c.message) {
			t.Errorf("%s: %+v, want %s, %s, %q", name, v, c.phase, c.reason, c.message)
		}
	}
}
