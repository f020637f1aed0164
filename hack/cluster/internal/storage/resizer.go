package storage

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

const maxRetry = 30 * time.Second

// resizer grows volumes whose claims ask for more, as external-resizer does for CSI drivers: first the volume's capacity,
// then the claim's.
type resizer struct {
	client kubernetes.Interface
	queue  workqueue.TypedRateLimitingInterface[cache.ObjectName]
	claims cache.SharedIndexInformer
	start  func(stop <-chan struct{})
}

func newResizer(client kubernetes.Interface) *resizer {
	factory := informers.NewSharedInformerFactory(client, 0)
	limit := workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](200*time.Millisecond, maxRetry)
	r := &resizer{
		client: client,
		queue:  workqueue.NewTypedRateLimitingQueue[cache.ObjectName](limit),
		claims: factory.Core().V1().PersistentVolumeClaims().Informer(),
		start:  factory.Start,
	}
	enqueue := func(object any) {
		if claim, ok := object.(*corev1.PersistentVolumeClaim); ok && wanted(claim) != nil {
			r.queue.Add(cache.MetaObjectToName(claim))
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: enqueue, UpdateFunc: func(_, object any) { enqueue(object) }}
	if _, err := r.claims.AddEventHandler(handler); err != nil {
		panic(err) // only an informer that was stopped refuses a handler
	}
	return r
}

// run works until ctx ends.
func (r *resizer) run(ctx context.Context) {
	r.start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), r.claims.HasSynced) {
		return
	}
	context.AfterFunc(ctx, r.queue.ShutDown)
	for {
		name, shutdown := r.queue.Get()
		if shutdown {
			return
		}
		if err := r.resize(ctx, name); err != nil {
			klog.FromContext(ctx).Error(err, "Claim not resized, trying again", "claim", name)
			r.queue.AddRateLimited(name)
		} else {
			r.queue.Forget(name)
		}
		r.queue.Done(name)
	}
}

// wanted is the size that a bound claim asks for beyond what it has, or nil.
func wanted(claim *corev1.PersistentVolumeClaim) *resource.Quantity {
	asks := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	has := claim.Status.Capacity[corev1.ResourceStorage]
	if claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName == "" || asks.Cmp(has) <= 0 {
		return nil
	}
	return &asks
}

func (r *resizer) resize(ctx context.Context, name cache.ObjectName) error {
	claim, err := r.client.CoreV1().PersistentVolumeClaims(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the claim: %w", err)
	}
	size := wanted(claim)
	if size == nil {
		return nil
	}
	volume, err := r.client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the volume: %w", err)
	}
	if volume.Annotations["pv.kubernetes.io/provisioned-by"] != ProvisionerName {
		return nil
	}
	if has := volume.Spec.Capacity[corev1.ResourceStorage]; has.Cmp(*size) < 0 {
		volume.Spec.Capacity[corev1.ResourceStorage] = *size
		if _, err := r.client.CoreV1().PersistentVolumes().Update(ctx, volume, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("grow the volume: %w", err)
		}
	}
	claim = grown(claim, *size)
	if _, err := r.client.CoreV1().PersistentVolumeClaims(name.Namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("report the claim's new size: %w", err)
	}
	return nil
}

// grown is the claim with the status that says that it has grown to size.
func grown(claim *corev1.PersistentVolumeClaim, size resource.Quantity) *corev1.PersistentVolumeClaim {
	claim = claim.DeepCopy()
	if claim.Status.Capacity == nil {
		claim.Status.Capacity = corev1.ResourceList{}
	}
	claim.Status.Capacity[corev1.ResourceStorage] = size
	claim.Status.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: size}
	delete(claim.Status.AllocatedResourceStatuses, corev1.ResourceStorage)
	var keep []corev1.PersistentVolumeClaimCondition
	for _, c := range claim.Status.Conditions {
		switch c.Type {
		case corev1.PersistentVolumeClaimResizing, corev1.PersistentVolumeClaimFileSystemResizePending,
			corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError:
		default:
			keep = append(keep, c)
		}
	}
	claim.Status.Conditions = keep
	return claim
}
