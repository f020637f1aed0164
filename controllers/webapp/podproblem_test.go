package webapp

import (
	"testing"
	"time"

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

func waitsFor(name, reason string) corev1.Pod {
	return podWith(name, func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
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
		if bad := podProblem(current(tc.pods, d)); bad != nil {
			got = bad.Reason
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// The order of the pods does not change the message.
func TestPodProblem_stable(t *testing.T) {
	a, b := waitsFor("web-1", "ImagePullBackOff"), waitsFor("web-2", "CreateContainerError")
	one, other := podProblem([]corev1.Pod{a, b}), podProblem([]corev1.Pod{b, a})
	if one.Reason != "ImagePullBackOff" || *one != *other {
		t.Errorf("%+v and %+v", one, other)
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
