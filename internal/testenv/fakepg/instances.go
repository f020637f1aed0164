package fakepg

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// fixture has the objects of one PostgreSQL. nil means that an object does not exist.
type fixture struct {
	key   types.NamespacedName
	pg    *databasev1alpha1.PostgreSQL
	set   *k8sappsv1.StatefulSet
	lease *coordinationv1.Lease
	pods  map[string]*corev1.Pod
	// terminating are the pods that are being deleted.
	terminating map[string]*corev1.Pod
}

func (p *Kubelet) observe(ctx context.Context, key types.NamespacedName) (*fixture, error) {
	w := &fixture{key: key, pods: map[string]*corev1.Pod{}, terminating: map[string]*corev1.Pod{}}
	pg, set, lease := &databasev1alpha1.PostgreSQL{}, &k8sappsv1.StatefulSet{}, &coordinationv1.Lease{}
	for _, read := range []struct {
		object client.Object
		keep   func()
	}{{pg, func() { w.pg = pg }}, {set, func() { w.set = set }}, {lease, func() { w.lease = lease }}} {
		found, err := p.get(ctx, key, read.object)
		if err != nil {
			return nil, err
		}
		if found {
			read.keep()
		}
	}
	pods := &corev1.PodList{}
	if err := p.cache.List(ctx, pods, client.InNamespace(key.Namespace), client.MatchingLabels{labelOwner: key.Name}); err != nil {
		return nil, err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if _, ours := agentapi.Ordinal(key.Name, pod.Name); !ours {
			continue
		}
		if pod.DeletionTimestamp == nil {
			w.pods[pod.Name] = pod
		} else {
			w.terminating[pod.Name] = pod
		}
	}
	return w, nil
}

func (p *Kubelet) sync(ctx context.Context, key types.NamespacedName) error {
	w, err := p.observe(ctx, key)
	if err != nil {
		return err
	}
	p.dropAgents(w)
	if err := errors.Join(p.removeTerminated(ctx, w), p.removeReleasedClaims(ctx, w)); err != nil {
		return err
	}
	if err := p.collectGarbage(ctx, w); err != nil || w.set == nil {
		return err
	}
	if w.set.DeletionTimestamp != nil {
		return p.orphanDependents(ctx, w)
	}
	if err := p.setObservedGeneration(ctx, w.set); err != nil {
		return err
	}
	for name, pod := range w.pods {
		if ordinal, _ := agentapi.Ordinal(key.Name, name); ordinal >= int(*w.set.Spec.Replicas) {
			if err := p.client.Delete(ctx, pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
				return err
			}
			delete(w.pods, name)
		}
	}
	for ordinal := range int(*w.set.Spec.Replicas) {
		if err := p.syncInstance(ctx, w, agentapi.Pod(key.Name, ordinal)); err != nil {
			return err
		}
	}
	return p.elect(ctx, w)
}

// setObservedGeneration reports the generation of the StatefulSet as observed.
func (p *Kubelet) setObservedGeneration(ctx context.Context, set *k8sappsv1.StatefulSet) error {
	if set.Status.ObservedGeneration == set.Generation {
		return nil
	}
	set.Status.ObservedGeneration = set.Generation
	return client.IgnoreNotFound(p.client.Status().Update(ctx, set))
}

func (p *Kubelet) syncInstance(ctx context.Context, w *fixture, name string) error {
	if err := p.syncClaim(ctx, w, name); err != nil {
		return err
	}
	pod := w.pods[name]
	switch {
	case pod == nil && w.terminating[name] != nil:
		return nil
	case pod == nil:
		pod = podOf(w.set, name)
		if err := p.client.Create(ctx, pod); err != nil {
			return err
		}
		p.recordCreated(pod)
		w.pods[name] = pod
	case metav1.GetControllerOfNoCopy(pod) == nil: // the StatefulSet was re-created with orphaned pods
		before := pod.DeepCopy()
		if err := controllerutil.SetControllerReference(w.set, pod, p.client.Scheme()); err != nil {
			return err
		}
		if err := p.client.Patch(ctx, pod, client.MergeFrom(before)); err != nil {
			return err
		}
	case !metav1.IsControlledBy(pod, w.set): // it belongs to the previous StatefulSet
		return client.IgnoreNotFound(p.client.Delete(ctx, pod, client.GracePeriodSeconds(0)))
	}
	return p.syncPod(ctx, w, pod)
}

// recordCreated records that a pod was replaced, if there was one of its name.
func (p *Kubelet) recordCreated(pod *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := client.ObjectKeyFromObject(pod)
	if p.uids[key] != "" {
		p.Replaced = append(p.Replaced, pod.Name)
	}
	p.uids[key] = pod.UID
}

func podOf(set *k8sappsv1.StatefulSet, name string) *corev1.Pod {
	template := set.Spec.Template.DeepCopy()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: set.Namespace, Labels: maps.Clone(template.Labels), Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, k8sappsv1.SchemeGroupVersion.WithKind("StatefulSet"))},
			Finalizers:      []string{finalizer},
		},
		Spec: template.Spec,
	}
	claim := set.Spec.VolumeClaimTemplates[0].Name // nothing mounts the others
	pod.Spec.Volumes = []corev1.Volume{{Name: claim, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim + "-" + name},
	}}}
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].VolumeMounts = nil
	}
	for i := range pod.Spec.InitContainers {
		pod.Spec.InitContainers[i].VolumeMounts = nil
	}
	return pod
}

// syncPod starts the pod's agent and updates the pod's status.
func (p *Kubelet) syncPod(ctx context.Context, w *fixture, pod *corev1.Pod) error {
	address, err := p.serve(ctx, w, pod)
	if err != nil {
		return err
	}
	closed, err := p.schedule(ctx, pod)
	if err != nil {
		return err
	}
	before := pod.DeepCopy()
	pod.Status = p.statusOf(w, pod, address, closed)
	if wait := p.startupLeft(pod.UID); wait > 0 {
		p.queue.AddAfter(w.key, wait)
	}
	for i := range pod.Status.Conditions {
		for _, c := range before.Status.Conditions {
			if at := &pod.Status.Conditions[i]; c.Type == at.Type && c.Status == at.Status {
				at.LastTransitionTime = c.LastTransitionTime
			}
		}
	}
	if equality.Semantic.DeepEqual(before.Status, pod.Status) {
		return nil
	}
	if err := p.client.Status().Update(ctx, pod); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

// startupLeft is the remaining time until the instance of a pod is Ready.
func (p *Kubelet) startupLeft(uid types.UID) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.startupLeftLocked(uid)
}

// startupLeftLocked is startupLeft for callers that hold the lock. The time starts with the first call.
func (p *Kubelet) startupLeftLocked(uid types.UID) time.Duration {
	if p.startedAt[uid].IsZero() {
		p.startedAt[uid] = time.Now()
	}
	return p.options.Start - time.Since(p.startedAt[uid])
}

func (p *Kubelet) statusOf(w *fixture, pod *corev1.Pod, address, closed string) corev1.PodStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := metav1.Now()
	if message := cmp.Or(closed, p.Unschedulable[pod.Name]); message != "" {
		return corev1.PodStatus{Phase: corev1.PodPending, QOSClass: pod.Status.QOSClass, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message, LastTransitionTime: now,
		}}}
	}
	waiting, held := p.NotReady[pod.Name]
	if p.startupLeftLocked(pod.UID) > 0 {
		waiting, held = "ContainerCreating", true
	}
	// An instance that cannot find the Lease stops being primary.
	lost := w.lease == nil && pod.Labels[databasev1alpha1.LabelRole] == databasev1alpha1.LabelRolePrimary
	container := corev1.ContainerStatus{Name: "postgres", Ready: !held && !lost, Image: pod.Spec.Containers[0].Image}
	ready := corev1.ConditionTrue
	switch {
	case held:
		ready = corev1.ConditionFalse
		container.State.Waiting = &corev1.ContainerStateWaiting{Reason: waiting}
	case lost:
		ready = corev1.ConditionFalse
		fallthrough
	default:
		container.State.Running = &corev1.ContainerStateRunning{}
	}
	return corev1.PodStatus{
		Phase: corev1.PodRunning, QOSClass: pod.Status.QOSClass, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}},
		ContainerStatuses: []corev1.ContainerStatus{container},
		Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: now}},
	}
}
