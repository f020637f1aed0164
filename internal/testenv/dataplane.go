package testenv

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Rollout is how the fake data plane rolls out a Deployment. The zero value succeeds at once.
type Rollout struct {
	// Delay is the time between a change of the Deployment and its status update.
	Delay time.Duration
	// Image limits the other fields to Deployments whose first container has this image.
	Image string
	// Waiting is the waiting reason of the pods' container, such as ImagePullBackOff. Pods are created only for this.
	Waiting string
	// Message is the message for Waiting.
	Message string
	// DeadlineExceeded reports that the rollout exceeded its progress deadline.
	DeadlineExceeded bool
}

// DataPlane is a fake Deployment controller and kubelet. It only sets status: Deployments are reported as rolled out
// although nothing runs. It creates no ReplicaSets, and Pods only for a Rollout with Waiting.
type DataPlane struct {
	client kubernetes.Interface
	lister cache.Indexer
	queue  workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mu       sync.Mutex
	rollouts map[types.NamespacedName]Rollout
}

// StartDataPlane serves all namespaces until ctx is done.
func (e *Env) StartDataPlane(ctx context.Context) (*DataPlane, error) {
	clientset, err := kubernetes.NewForConfig(e.DataPlane)
	if err != nil {
		return nil, fmt.Errorf("client of the data plane: %w", err)
	}
	informer := informers.NewSharedInformerFactory(clientset, 0).Apps().V1().Deployments().Informer()
	dataPlane := &DataPlane{
		client: clientset, lister: informer.GetIndexer(), rollouts: map[types.NamespacedName]Rollout{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]()),
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    dataPlane.changed,
		UpdateFunc: func(_, object any) { dataPlane.changed(object) },
	})
	if err != nil {
		return nil, fmt.Errorf("watch Deployments: %w", err)
	}
	go informer.RunWithContext(ctx)
	for range 4 {
		go dataPlane.work(ctx)
	}
	context.AfterFunc(ctx, dataPlane.queue.ShutDown)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, fmt.Errorf("watch Deployments: %w", context.Cause(ctx))
	}
	return dataPlane, nil
}

// Set sets how a Deployment rolls out from now on. The zero Rollout makes it succeed.
func (d *DataPlane) Set(namespace, name string, rollout Rollout) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	d.mu.Lock()
	d.rollouts[key] = rollout
	d.mu.Unlock()
	d.queue.Add(key)
}

func (d *DataPlane) rollout(key types.NamespacedName) Rollout {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rollouts[key]
}

func (d *DataPlane) changed(object any) {
	deployment, ok := object.(*k8sappsv1.Deployment)
	if !ok {
		return
	}
	key := types.NamespacedName{Namespace: deployment.Namespace, Name: deployment.Name}
	d.queue.AddAfter(key, d.rollout(key).Delay)
}

func (d *DataPlane) work(ctx context.Context) {
	for {
		key, done := d.queue.Get()
		if done {
			return
		}
		if err := d.sync(ctx, key); err != nil && ctx.Err() == nil {
			d.queue.AddRateLimited(key)
		} else {
			d.queue.Forget(key)
		}
		d.queue.Done(key)
	}
}

func (d *DataPlane) sync(ctx context.Context, key types.NamespacedName) error {
	object, found, err := d.lister.GetByKey(key.String())
	if err != nil || !found {
		return err
	}
	deployment := object.(*k8sappsv1.Deployment).DeepCopy()
	rollout := d.rollout(key)
	if rollout.Image != "" && rollout.Image != deployment.Spec.Template.Spec.Containers[0].Image {
		rollout = Rollout{}
	}
	if err := d.syncPods(ctx, deployment, rollout); err != nil {
		return err
	}
	before := deployment.Status.DeepCopy()
	deployment.Status = rolloutStatus(deployment, rollout)
	if apiequality.Semantic.DeepEqual(*before, deployment.Status) {
		return nil
	}
	_, err = d.client.AppsV1().Deployments(key.Namespace).UpdateStatus(ctx, deployment, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // the informer will bring the newer object
	}
	return err
}

// rolloutStatus is the final status that the Deployment controller would set.
func rolloutStatus(deployment *k8sappsv1.Deployment, rollout Rollout) k8sappsv1.DeploymentStatus {
	replicas := int32(1)
	if deployment.Spec.Replicas != nil {
		replicas = *deployment.Spec.Replicas
	}
	status := *deployment.Status.DeepCopy()
	status.ObservedGeneration = deployment.Generation
	status.Replicas, status.UpdatedReplicas = replicas, replicas
	status.ReadyReplicas, status.AvailableReplicas, status.UnavailableReplicas = replicas, replicas, 0
	available := k8sappsv1.DeploymentCondition{
		Type: k8sappsv1.DeploymentAvailable, Status: corev1.ConditionTrue,
		Reason: "MinimumReplicasAvailable", Message: "Deployment has minimum availability.",
	}
	progressing := k8sappsv1.DeploymentCondition{
		Type: k8sappsv1.DeploymentProgressing, Status: corev1.ConditionTrue,
		Reason: "NewReplicaSetAvailable", Message: "The new replica set has successfully progressed.",
	}
	if rollout.Waiting != "" {
		status.ReadyReplicas, status.AvailableReplicas, status.UnavailableReplicas = 0, 0, replicas
		available.Status, available.Reason = corev1.ConditionFalse, "MinimumReplicasUnavailable"
		available.Message = "Deployment does not have minimum availability."
		progressing.Reason, progressing.Message = "ReplicaSetUpdated", "The replica set is progressing."
	}
	if rollout.DeadlineExceeded {
		progressing.Status, progressing.Reason = corev1.ConditionFalse, "ProgressDeadlineExceeded"
		progressing.Message = "The replica set has timed out progressing."
	}
	status.Conditions = withCondition(withCondition(status.Conditions, available), progressing)
	return status
}

func withCondition(conditions []k8sappsv1.DeploymentCondition, want k8sappsv1.DeploymentCondition) []k8sappsv1.DeploymentCondition {
	want.LastUpdateTime, want.LastTransitionTime = metav1.Now(), metav1.Now()
	at := slices.IndexFunc(conditions, func(c k8sappsv1.DeploymentCondition) bool { return c.Type == want.Type })
	if at < 0 {
		return append(conditions, want)
	}
	have := conditions[at]
	if have.Status == want.Status && have.Reason == want.Reason && have.Message == want.Message {
		return conditions
	}
	if have.Status == want.Status {
		want.LastTransitionTime = have.LastTransitionTime
	}
	conditions[at] = want
	return conditions
}
