package webapp

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fettle-dev/fettle/internal/podproblem"
)

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
