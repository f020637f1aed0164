package failover

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// drainTime is how long a drain may take. evictPause is the time between two attempts of an eviction that the budget rejects, as in
	// kubectl drain.
	drainTime, evictPause = 3 * time.Minute, 5 * time.Second
)

// drain does the same to the primary's node as kubectl drain --ignore-daemonsets --delete-emptydir-data, and uncordons it at the end. It
// also evicts OLM, the cluster's DNS and the operator if they are there. Pods without a controller stay.
func drain(ctx context.Context, s *suite, p primary) error {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	name := p.pod.Spec.NodeName
	s.onCleanup("uncordon "+name, func(ctx context.Context) error { return s.cordon(ctx, name, false) })
	if err := s.cordon(ctx, name, true); err != nil {
		return err
	}
	pods := &corev1.PodList{}
	if err := s.client.List(ctx, pods, client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("spec.nodeName", name)}); err != nil {
		return err
	}
	var group sync.WaitGroup
	errs := make([]error, len(pods.Items))
	for i := range pods.Items {
		pod := &pods.Items[i]
		if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind != "DaemonSet" && owner.Kind != "Node" {
			group.Go(func() { errs[i] = s.evict(ctx, pod) })
		}
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("drain %s: %w", name, err)
	}
	s.logf("%s is drained after %s", name, time.Since(begun).Round(time.Millisecond))
	return nil
}

// cordon cordons or uncordons a node.
func (s *suite) cordon(ctx context.Context, name string, closed bool) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	patch := fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, closed)
	return s.client.Patch(ctx, node, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// evict retries until the pod may be evicted, and waits until it is gone.
func (s *suite) evict(ctx context.Context, pod *corev1.Pod) error {
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	}
	for {
		err := s.clientset.PolicyV1().Evictions(pod.Namespace).Evict(ctx, eviction)
		if !apierrors.IsTooManyRequests(err) {
			if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) { // it is another pod by now
				return fmt.Errorf("evict %s/%s: %w", pod.Namespace, pod.Name, err)
			}
			break
		}
		if err := sleep(ctx, evictPause); err != nil {
			return fmt.Errorf("evict %s/%s: the budget does not allow it: %w", pod.Namespace, pod.Name, err)
		}
	}
	return waitFor(ctx, drainTime, fmt.Sprintf("the deletion of %s/%s", pod.Namespace, pod.Name), func(ctx context.Context) error {
		now := &corev1.Pod{}
		err := s.client.Get(ctx, client.ObjectKeyFromObject(pod), now)
		switch {
		case apierrors.IsNotFound(err), err == nil && now.UID != pod.UID:
			return nil
		}
		return errors.Join(errors.New("the pod is still there"), err)
	})
}
