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

// resizer expands the volumes of PVCs that request more storage, like external-resizer does for CSI drivers. It sets the
// capacity of the PersistentVolume first, then that of the PVC.
type resizer struct {
	client kubernetes.Interface
	queue  workqueue.TypedRateLimitingInterface[cache.ObjectName]
	pvcs   cache.SharedIndexInformer
	start  func(stop <-chan struct{})
}

func newResizer(client kubernetes.Interface) *resizer {
	factory := informers.NewSharedInformerFactory(client, 0)
	limit := workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](200*time.Millisecond, maxRetry)
	r := &resizer{
		client: client,
		queue:  workqueue.NewTypedRateLimitingQueue[cache.ObjectName](limit),
		pvcs:   factory.Core().V1().PersistentVolumeClaims().Informer(),
		start:  factory.Start,
	}
	enqueue := func(object any) {
		if pvc, ok := object.(*corev1.PersistentVolumeClaim); ok && requestedSize(pvc) != nil {
			r.queue.Add(cache.MetaObjectToName(pvc))
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: enqueue, UpdateFunc: func(_, object any) { enqueue(object) }}
	if _, err := r.pvcs.AddEventHandler(handler); err != nil {
		panic(err) // only a stopped informer rejects a handler
	}
	return r
}

// run resizes volumes until ctx is done.
func (r *resizer) run(ctx context.Context) {
	r.start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), r.pvcs.HasSynced) {
		return
	}
	context.AfterFunc(ctx, r.queue.ShutDown)
	for {
		name, shutdown := r.queue.Get()
		if shutdown {
			return
		}
		if err := r.resize(ctx, name); err != nil {
			klog.FromContext(ctx).Error(err, "failed to resize volume", "pvc", name)
			r.queue.AddRateLimited(name)
		} else {
			r.queue.Forget(name)
		}
		r.queue.Done(name)
	}
}

// requestedSize returns the requested size of a bound PVC if it is larger than the capacity, otherwise nil.
func requestedSize(pvc *corev1.PersistentVolumeClaim) *resource.Quantity {
	requested := pvc.Spec.Resources.Requests[corev1.ResourceStorage]
	capacity := pvc.Status.Capacity[corev1.ResourceStorage]
	if pvc.Status.Phase != corev1.ClaimBound || pvc.Spec.VolumeName == "" || requested.Cmp(capacity) <= 0 {
		return nil
	}
	return &requested
}

func (r *resizer) resize(ctx context.Context, name cache.ObjectName) error {
	pvc, err := r.client.CoreV1().PersistentVolumeClaims(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the PVC: %w", err)
	}
	size := requestedSize(pvc)
	if size == nil {
		return nil
	}
	volume, err := r.client.CoreV1().PersistentVolumes().Get(ctx, pvc.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the volume: %w", err)
	}
	if volume.Annotations["pv.kubernetes.io/provisioned-by"] != provisionerName {
		return nil
	}
	if capacity := volume.Spec.Capacity[corev1.ResourceStorage]; capacity.Cmp(*size) < 0 {
		volume.Spec.Capacity[corev1.ResourceStorage] = *size
		if _, err := r.client.CoreV1().PersistentVolumes().Update(ctx, volume, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("expand the volume: %w", err)
		}
	}
	pvc = withCapacity(pvc, *size)
	if _, err := r.client.CoreV1().PersistentVolumeClaims(name.Namespace).UpdateStatus(ctx, pvc, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update the PVC's status: %w", err)
	}
	return nil
}

// withCapacity returns the PVC with the status after an expansion to size.
func withCapacity(pvc *corev1.PersistentVolumeClaim, size resource.Quantity) *corev1.PersistentVolumeClaim {
	pvc = pvc.DeepCopy()
	if pvc.Status.Capacity == nil {
		pvc.Status.Capacity = corev1.ResourceList{}
	}
	pvc.Status.Capacity[corev1.ResourceStorage] = size
	pvc.Status.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: size}
	delete(pvc.Status.AllocatedResourceStatuses, corev1.ResourceStorage)
	var keep []corev1.PersistentVolumeClaimCondition
	for _, c := range pvc.Status.Conditions {
		switch c.Type {
		case corev1.PersistentVolumeClaimResizing, corev1.PersistentVolumeClaimFileSystemResizePending,
			corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError:
		default:
			keep = append(keep, c)
		}
	}
	pvc.Status.Conditions = keep
	return pvc
}
