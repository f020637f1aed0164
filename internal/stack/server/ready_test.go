package server

import (
	"strings"
	"testing"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// readySet is a StatefulSet with one ready pod, in a test that changes them.
type readySet struct {
	set *k8sappsv1.StatefulSet
	pod corev1.Pod
}

func newReadySet() *readySet {
	r := &readySet{
		set: &k8sappsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Name: "shop-cache", UID: "set", Generation: 2},
			Status:     k8sappsv1.StatefulSetStatus{ObservedGeneration: 2, UpdateRevision: "new"},
		},
		pod: corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "shop-cache-0", Labels: map[string]string{"controller-revision-hash": "new"}},
			Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: cacheContainer, Image: "valkey:8"}}},
			Status: corev1.PodStatus{
				Phase:             corev1.PodRunning,
				Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
				ContainerStatuses: []corev1.ContainerStatus{{Name: cacheContainer, Started: new(true), Ready: true}},
			},
		},
	}
	r.ownedBy("set")
	return r
}

func (r *readySet) ownedBy(uid types.UID) {
	r.pod.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: "shop-cache", UID: uid, Controller: new(true)}}
}

// unready makes the probes fail.
func (r *readySet) unready() *corev1.ContainerStatus {
	r.pod.Status.Conditions[0].Status = corev1.ConditionFalse
	c := &r.pod.Status.ContainerStatuses[0]
	c.Ready = false
	return c
}

func (r *readySet) waiting(reason string) {
	c := r.unready()
	c.Started, c.State.Waiting = new(false), &corev1.ContainerStateWaiting{Reason: reason}
}

func (r *readySet) exited(reason string) {
	r.waiting("CrashLoopBackOff")
	c := &r.pod.Status.ContainerStatuses[0]
	c.RestartCount, c.LastTerminationState.Terminated = 3, &corev1.ContainerStateTerminated{Reason: reason, ExitCode: 1}
}

func TestReady(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*readySet)
		status metav1.ConditionStatus
		reason string
		// says is in the message.
		says string
	}{
		"ready":        {func(*readySet) {}, "True", "Ready", ""},
		"no set":       {func(r *readySet) { r.set = nil }, "Unknown", "Reconciling", "not created yet"},
		"set deleted":  {func(r *readySet) { r.set.DeletionTimestamp = &metav1.Time{} }, "False", "Terminating", "is being deleted"},
		"new version":  {func(r *readySet) { r.set.Generation++ }, "Unknown", "Reconciling", "waiting for Kubernetes"},
		"pod outdated": {func(r *readySet) { r.set.Status.UpdateRevision = "newer" }, "Unknown", "Reconciling", "about to restart"},
		"broken pod outdated": {func(r *readySet) {
			r.exited("Error")
			r.set.Status.UpdateRevision = "newer"
		}, "Unknown", "Reconciling", "about to restart"},
		"no pod":        {func(r *readySet) { r.pod.Name = "shop-cache-1" }, "Unknown", "Reconciling", "kubectl describe statefulset shop-cache"},
		"pod of former": {func(r *readySet) { r.ownedBy("former") }, "Unknown", "Reconciling", "is not created yet"},
		"orphaned pod":  {func(r *readySet) { r.pod.OwnerReferences = nil }, "True", "Ready", ""},
		"pod stops": {func(r *readySet) {
			r.unready()
			r.pod.DeletionTimestamp = &metav1.Time{}
		}, "Unknown", "Reconciling", "node node-1"},
		"pod stops, still ready": {func(r *readySet) { r.pod.DeletionTimestamp = &metav1.Time{} }, "Unknown", "Reconciling", "out-of-service"},
		"starting":               {func(r *readySet) { r.unready().Started = new(false) }, "Unknown", "Reconciling", "is starting"},
		"start not reported":     {func(r *readySet) { r.unready().Started = nil }, "Unknown", "Reconciling", "is starting"},
		"no status yet": {func(r *readySet) {
			r.unready()
			r.pod.Status.ContainerStatuses = nil
		}, "Unknown", "Reconciling", "is starting"},
		"probe fails":   {func(r *readySet) { r.unready() }, "False", "Unavailable", "kubectl logs shop-cache-0"},
		"keeps exiting": {func(r *readySet) { r.exited("Error") }, "False", "CrashLoopBackOff", "exit code 1"},
		"cache out of memory": {func(r *readySet) { r.exited("OOMKilled") }, "False", "OOMKilled",
			"raise memory of the component"},
		"MySQL out of memory": {func(r *readySet) {
			r.exited("OOMKilled")
			r.pod.Spec.Containers[0].Name = mysqlContainer
		}, "False", "OOMKilled", "raise resources.limits.memory of the component"},
		"no image": {func(r *readySet) { r.waiting("ErrImagePull") }, "False", "ImagePullBackOff",
			`cannot pull image "valkey:8": check version and image of the component`},
		"no image allowed": {func(r *readySet) { r.waiting("ErrImageNeverPull") }, "False", "ErrImageNeverPull", "version and image of the component"},
		"no room": {func(r *readySet) {
			r.unready()
			r.pod.Status.Conditions = append(r.pod.Status.Conditions, corev1.PodCondition{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "3 Insufficient memory.",
			})
		}, "False", "Unschedulable", "pod shop-cache-0 cannot be scheduled: 3 Insufficient memory."},
	} {
		r := newReadySet()
		tc.change(r)
		got := Ready(r.set, []corev1.Pod{r.pod})
		if got.Status != tc.status || got.Reason != tc.reason || !strings.Contains(got.Message, tc.says) || (tc.status == "True") != (got.Message == "") {
			t.Errorf("%s: %+v", name, got)
		}
		if strings.Contains(got.Message, "spec.") {
			t.Errorf("%s: the message names a field that a component does not have: %s", name, got.Message)
		}
	}
}
