package webapp

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func podWith(name string, change func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1000, 0))}}
	change(&p)
	return p
}

// wasReady is a pod that is not ready any more.
func wasReady(name string) corev1.Pod {
	return podWith(name, func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(time.Unix(2000, 0)),
		}}
	})
}

func waitsFor(reason, message string, restarts int32) corev1.Pod {
	return podWith("web-1", func(p *corev1.Pod) {
		c := corev1.ContainerStatus{Name: "app", Image: "nginx:1", RestartCount: restarts}
		c.State.Waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: message}
		if restarts > 0 {
			c.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 3}
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{c}
	})
}

// Kubernetes keeps pods that were evicted or ended with their node. The ReplicaSet has replaced them.
func TestCurrent_ignoresReplacedPods(t *testing.T) {
	pod := func(name, revision string, created int64, phase corev1.PodPhase) corev1.Pod {
		return podWith(name, func(p *corev1.Pod) {
			p.Annotations = map[string]string{annotationRevision: revision}
			p.CreationTimestamp = metav1.NewTime(time.Unix(created, 0))
			p.Status = corev1.PodStatus{Phase: phase, Reason: map[bool]string{true: "Evicted"}[phase == corev1.PodFailed]}
		})
	}
	d := newFixture(nil).seen.deployment
	d.Spec.Template.Annotations = map[string]string{annotationRevision: "now"}
	evicted := pod("evicted", "now", 1000, corev1.PodFailed)
	for name, tc := range map[string]struct {
		pods []corev1.Pod
		want string
	}{
		"replaced":                 {[]corev1.Pod{evicted, pod("new", "now", 1001, corev1.PodRunning)}, ""},
		"not yet":                  {[]corev1.Pod{pod("old", "now", 999, corev1.PodRunning), evicted}, "Evicted"},
		"by one of another":        {[]corev1.Pod{evicted, pod("other", "before", 1001, corev1.PodRunning)}, "Evicted"},
		"the replacement too":      {[]corev1.Pod{evicted, pod("new", "now", 1001, corev1.PodFailed)}, "Evicted"},
		"of the template before":   {[]corev1.Pod{pod("old", "before", 1001, corev1.PodFailed)}, ""},
		"alone, as nothing can be": {[]corev1.Pod{evicted}, "Evicted"},
	} {
		got := ""
		if bad := worstPodProblem(current(tc.pods, d)); bad != nil {
			got = bad.reason
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestWorstPodProblem(t *testing.T) {
	killed := waitsFor("CrashLoopBackOff", "", 1)
	killed.Status.ContainerStatuses[0].LastTerminationState.Terminated.Reason = "OOMKilled"
	ready := waitsFor("ImagePullBackOff", "", 0)
	ready.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	going := waitsFor("ImagePullBackOff", "", 0)
	going.DeletionTimestamp = &metav1.Time{}
	for _, c := range []struct {
		name         string
		pod          corev1.Pod
		reason, text string
	}{
		{"just made", podWith("web-1", func(*corev1.Pod) {}), "", ""},
		{"starting", waitsFor("ContainerCreating", "", 0), "", ""},
		{"ended once", waitsFor("CrashLoopBackOff", "", 0), "", ""},
		{"keeps ending", waitsFor("CrashLoopBackOff", "back-off 10s", 1), "CrashLoopBackOff", "exit code 3"},
		{"out of memory", killed, "OOMKilled", "OOMKilled"},
		{"image", waitsFor("ImagePullBackOff", "x", 0), "ImagePullBackOff", `can't pull image "nginx:1"`},
		{"image, meanwhile", waitsFor("ErrImagePull", "y", 0), "ImagePullBackOff", `can't pull image "nginx:1"`},
		{"image name", waitsFor("InvalidImageName", "", 0), "InvalidImageName", "can't pull"},
		{"configuration", waitsFor("CreateContainerConfigError", `secret "a" not found`, 0), "CreateContainerConfigError", `secret "a" not found`},
		{"evicted", podWith("web-1", func(p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "no disk"}
		}), "Evicted", "no disk"},
		{"ready all the same", ready, "", ""},
		{"going", going, "", ""},
	} {
		got := worstPodProblem([]corev1.Pod{c.pod})
		if (got == nil) != (c.reason == "") || (got != nil && (got.reason != c.reason || !strings.Contains(got.message, c.text))) {
			t.Errorf("%s: %+v, want %s with %q", c.name, got, c.reason, c.text)
		}
	}
}

// TestWorstPodProblem_stableMessage holds that the next attempt, and another order of pods, change nothing.
func TestWorstPodProblem_stableMessage(t *testing.T) {
	for _, attempts := range [][]corev1.Pod{
		{waitsFor("CrashLoopBackOff", "back-off 10s", 2), waitsFor("CrashLoopBackOff", "back-off 5m", 40)},
		{waitsFor("ErrImagePull", "pull failed: x", 0), waitsFor("ImagePullBackOff", "back-off pulling", 0)},
	} {
		if diff := cmp.Diff(worstPodProblem(attempts[:1]), worstPodProblem(attempts[1:]), cmp.AllowUnexported(podProblem{})); diff != "" {
			t.Errorf("one attempt and the next: %s", diff)
		}
	}
	a, b := waitsFor("ImagePullBackOff", "", 0), waitsFor("CrashLoopBackOff", "", 2)
	b.Name = "web-2"
	one, other := worstPodProblem([]corev1.Pod{a, b}), worstPodProblem([]corev1.Pod{b, a})
	if diff := cmp.Diff(one, other, cmp.AllowUnexported(podProblem{})); diff != "" {
		t.Errorf("the order of pods counts: %s", diff)
	}
}

func TestStarting(t *testing.T) {
	if starting([]corev1.Pod{wasReady("web-1")}) {
		t.Error("a pod that was ready counts as starting")
	}
	if !starting([]corev1.Pod{podWith("web-1", func(*corev1.Pod) {})}) || !starting(nil) {
		t.Error("new pods, or none, don't count as starting")
	}
}
