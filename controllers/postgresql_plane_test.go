package controllers_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/peer"
)

// databases is a fake of what is around the operator's PostgreSQLs, in one namespace: the StatefulSet controller, the
// kubelet, the provisioner of volumes, and the agents with their protocol. Nothing of it runs PostgreSQL: it labels pods,
// makes them Ready, and answers with what a spec says. The real ones are tested elsewhere.
type databases struct {
	namespace string

	mu sync.Mutex
	// held pods do not become Ready, by name; the value is the reason that their container waits for.
	held map[string]string
	// pending parameters are reported by agents until they are told to restart, by pod.
	pending map[string][]string
	// used is how full a volume is, in percent; deaf agents do not take over a new configuration.
	used map[string]int
	// refuse is the error that is answered for each wish of that name.
	refuse map[string]string
	told   []peer.Desired
	// restarted and deleted are pods, in order.
	restarted, replaced []string

	agents   map[types.UID]*http.Server
	uids     map[string]types.UID
	timeline int
}

func startDatabases(ctx context.Context, namespace string) *databases {
	d := &databases{
		namespace: namespace, held: map[string]string{}, pending: map[string][]string{}, used: map[string]int{}, refuse: map[string]string{},
		agents: map[types.UID]*http.Server{}, uids: map[string]types.UID{}, timeline: 1,
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(ended)
		_ = wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
			if err := d.sync(ctx); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
				fmt.Fprintln(GinkgoWriter, "databases:", err)
			}
			return false, nil
		})
	}()
	DeferCleanup(func() {
		cancel()
		<-ended
		for _, server := range d.agents {
			_ = server.Close()
		}
	})
	return d
}

// with changes what the fake does from now on.
func (d *databases) with(f func(*databases)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(d)
}

func (d *databases) sync(ctx context.Context) error {
	sets := &k8sappsv1.StatefulSetList{}
	if err := user.List(ctx, sets, client.InNamespace(d.namespace)); err != nil {
		return err
	}
	for i := range sets.Items {
		if err := d.syncSet(ctx, &sets.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

func (d *databases) syncSet(ctx context.Context, set *k8sappsv1.StatefulSet) error {
	if set.DeletionTimestamp != nil { // the garbage collector leaves the pods and lets it go
		if controllerutil.RemoveFinalizer(set, metav1.FinalizerOrphanDependents) {
			return user.Update(ctx, set)
		}
		return nil
	}
	pods := &corev1.PodList{}
	if err := user.List(ctx, pods, client.InNamespace(d.namespace), client.MatchingLabels(set.Spec.Selector.MatchLabels)); err != nil {
		return err
	}
	byName := map[string]*corev1.Pod{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		ordinal, _ := peer.Ordinal(set.Name, pod.Name)
		if ordinal >= int(*set.Spec.Replicas) {
			if err := user.Delete(ctx, pod, client.GracePeriodSeconds(0)); err != nil {
				return err
			}
			continue
		}
		byName[pod.Name] = pod
	}
	for ordinal := range int(*set.Spec.Replicas) {
		if err := d.syncInstance(ctx, set, ordinal, byName); err != nil {
			return err
		}
	}
	return d.elect(ctx, set, byName)
}

func (d *databases) syncInstance(ctx context.Context, set *k8sappsv1.StatefulSet, ordinal int, pods map[string]*corev1.Pod) error {
	name := peer.Pod(set.Name, ordinal)
	if err := d.syncClaim(ctx, set, name); err != nil {
		return err
	}
	pod := pods[name]
	if pod == nil {
		template := set.Spec.Template
		pod = &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: d.namespace, Labels: maps.Clone(template.Labels), Annotations: template.Annotations},
			Spec:       template.Spec,
		}
		pod.Spec.Volumes = nil // the API server of the tests has no kubelet to mount them
		for i := range pod.Spec.Containers {
			pod.Spec.Containers[i].VolumeMounts = nil
		}
		for i := range pod.Spec.InitContainers {
			pod.Spec.InitContainers[i].VolumeMounts = nil
		}
		if err := controllerutil.SetControllerReference(set, pod, user.Scheme()); err != nil {
			return err
		}
		if err := user.Create(ctx, pod); err != nil {
			return err
		}
		d.with(func(d *databases) {
			if d.uids[name] != "" {
				d.replaced = append(d.replaced, name)
			}
			d.uids[name] = pod.UID
		})
		pods[name] = pod
	}
	return d.syncPod(ctx, set, ordinal, pod)
}

func (d *databases) syncClaim(ctx context.Context, set *k8sappsv1.StatefulSet, pod string) error {
	template := set.Spec.VolumeClaimTemplates[0]
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: template.Name + "-" + pod, Namespace: d.namespace, Labels: template.Labels}, Spec: template.Spec}
	err := user.Get(ctx, client.ObjectKeyFromObject(claim), claim)
	if apierrors.IsNotFound(err) {
		err = user.Create(ctx, claim)
	}
	if err != nil || claim.Status.Phase == corev1.ClaimBound && claim.Status.Capacity.Storage().Equal(*claim.Spec.Resources.Requests.Storage()) {
		return err
	}
	claim.Status.Phase = corev1.ClaimBound
	claim.Status.Capacity = claim.Spec.Resources.Requests
	return user.Status().Update(ctx, claim)
}

func (d *databases) syncPod(ctx context.Context, set *k8sappsv1.StatefulSet, ordinal int, pod *corev1.Pod) error {
	number := fnv.New32a()
	_, _ = number.Write([]byte(set.Namespace + "/" + set.Name)) // the same when the StatefulSet is made anew around its pods
	address := fmt.Sprintf("127.%d.%d.%d", 10+os.Getpid()%200, number.Sum32()%250, ordinal+1)
	if err := d.serve(ctx, set, pod, address); err != nil {
		return err
	}
	d.mu.Lock()
	waiting, held := d.held[pod.Name]
	d.mu.Unlock()
	container := corev1.ContainerStatus{Name: "postgres", Ready: !held, Image: pod.Spec.Containers[0].Image}
	ready := corev1.ConditionTrue
	if held {
		ready = corev1.ConditionFalse
		container.State.Waiting = &corev1.ContainerStateWaiting{Reason: waiting}
	} else {
		container.State.Running = &corev1.ContainerStateRunning{}
	}
	if pod.Status.PodIP == address && len(pod.Status.Conditions) > 0 && pod.Status.Conditions[0].Status == ready {
		return nil
	}
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}}, ContainerStatuses: []corev1.ContainerStatus{container},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Now()}},
	}
	return user.Status().Update(ctx, pod)
}

// elect labels one pod primary: the one that is asked for, else the one that is, else the lowest that is ready.
func (d *databases) elect(ctx context.Context, set *k8sappsv1.StatefulSet, pods map[string]*corev1.Pod) error {
	pg := &databasev1alpha1.PostgreSQL{}
	if err := user.Get(ctx, client.ObjectKeyFromObject(set), pg); err != nil {
		return client.IgnoreNotFound(err)
	}
	names := slices.Sorted(maps.Keys(pods))
	primary := chosen(pg, names, pods)
	for _, name := range names {
		role := databasev1alpha1.LabelRoleReplica
		if name == primary {
			role = databasev1alpha1.LabelRolePrimary
		}
		if pod := pods[name]; fit(pod) && pod.Labels[databasev1alpha1.LabelRole] != role {
			before := pod.DeepCopy()
			pod.Labels[databasev1alpha1.LabelRole] = role
			if err := user.Patch(ctx, pod, client.MergeFrom(before)); err != nil {
				return err
			}
		}
	}
	return nil
}

// chosen is the pod that should be primary.
func chosen(pg *databasev1alpha1.PostgreSQL, names []string, pods map[string]*corev1.Pod) (primary string) {
	if wanted := pg.Annotations[databasev1alpha1.AnnotationSwitchover]; fit(pods[wanted]) {
		return wanted
	}
	for _, name := range names {
		if fit(pods[name]) && (primary == "" || pods[name].Labels[databasev1alpha1.LabelRole] == databasev1alpha1.LabelRolePrimary) {
			primary = name
		}
	}
	return primary
}

// fit reports whether a pod exists and is ready.
func fit(pod *corev1.Pod) bool {
	return pod != nil && len(pod.Status.Conditions) > 0 && pod.Status.Conditions[0].Status == corev1.ConditionTrue
}
