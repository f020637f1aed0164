// Package fakepg fakes the environment of the operator's PostgreSQLs: the StatefulSet controller, the kubelet, the volume
// provisioner, the garbage collector, and the agents with their API and Lease. It does not run PostgreSQL: it creates pods
// and claims, labels the pods, and responds according to the spec. Other tests use the real components.
package fakepg

import (
	"context"
	"fmt"
	"sync"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// labelOwner is on all objects of a PostgreSQL, with its name.
const labelOwner = "fettle.dev/owner-name"

// Options of a Kubelet.
type Options struct {
	// Namespace limits the fake to one namespace. Empty means all.
	Namespace string
	// Start is how long an instance takes to become Ready after its pod was created, and after a restart in place.
	Start time.Duration
	// Log is called with errors that are retried. nil discards them.
	Log func(error)
}

// Kubelet is the fake. The exported fields configure it and record what it did. Use Update to read and change them.
type Kubelet struct {
	// NotReady are pods that do not become Ready, by name. The value is the waiting reason of their container.
	NotReady map[string]string
	// Unschedulable are pods that get no node, by name. The value is the message of the scheduler.
	Unschedulable map[string]string
	// VolumeNodes are the nodes of the pods' volumes, by pod: the pods run there or nowhere. Other pods get no node.
	VolumeNodes map[string]string
	// UnboundClaims are pods whose claims get no volume. ResizeErrors are pods whose claims do not grow. The value is the
	// message of Kubernetes.
	UnboundClaims map[string]bool
	ResizeErrors  map[string]string
	// PendingRestart are parameters that agents report until they are restarted, by pod.
	PendingRestart map[string][]string
	// UsedPercent is the used space of a volume, in percent of spec.storage, by pod.
	UsedPercent map[string]int
	// ChangeStatus changes the status of a pod's agent.
	ChangeStatus map[string]func(*agentapi.Status)
	// ApplyErrors are errors for desired objects, by name.
	ApplyErrors map[string]string
	// Apply applies the desired objects. nil does nothing.
	Apply func(context.Context, agentapi.Desired) (agentapi.Result, error)
	// Timeline is the timeline that the agents report.
	Timeline int
	// Applied are the desired objects sent to primaries. Restarted and Replaced are pods. All are in order.
	Applied             []agentapi.Desired
	Restarted, Replaced []string

	options    Options
	cache      cache.Cache
	client     client.Client
	queue      workqueue.TypedRateLimitingInterface[types.NamespacedName]
	goroutines sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	agents    map[types.UID]*agent
	applied   map[types.UID]agentapi.Applied     // what a pod has applied
	startedAt map[types.UID]time.Time            // when a pod was seen first, or its server was restarted
	deletedAt map[types.UID]time.Time            // when the deletion of a pod was seen
	loaded    map[types.UID]generations          // of the spec, by pod
	uids      map[types.NamespacedName]types.UID // of the pods
	roles     map[types.NamespacedName]map[string]agentapi.DesiredRole
}

// Start runs the fake until ctx is done. The client needs all permissions.
func Start(ctx context.Context, config *rest.Config, options Options) (*Kubelet, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, databasev1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("scheme of the fake: %w", err)
		}
	}
	limits := cache.Options{Scheme: scheme}
	if options.Namespace != "" {
		limits.DefaultNamespaces = map[string]cache.Config{options.Namespace: {}}
	}
	seen, err := cache.New(config, limits)
	if err != nil {
		return nil, fmt.Errorf("cache of the fake: %w", err)
	}
	writer, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("client of the fake: %w", err)
	}
	p := newKubelet(options, seen, writer)
	if err := p.watch(ctx); err != nil {
		return nil, err
	}
	p.run(ctx)
	if !seen.WaitForCacheSync(ctx) {
		return nil, fmt.Errorf("cache of the fake: %w", context.Cause(ctx))
	}
	return p, nil
}

func newKubelet(options Options, seen cache.Cache, writer client.Client) *Kubelet {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](5*time.Millisecond, time.Second)
	return &Kubelet{
		NotReady: map[string]string{}, Unschedulable: map[string]string{}, UnboundClaims: map[string]bool{}, ResizeErrors: map[string]string{},
		VolumeNodes: map[string]string{}, PendingRestart: map[string][]string{}, UsedPercent: map[string]int{}, ChangeStatus: map[string]func(*agentapi.Status){}, ApplyErrors: map[string]string{}, Timeline: 1,
		options: options, cache: seen, client: writer, queue: workqueue.NewTypedRateLimitingQueue(limiter),
		agents: map[types.UID]*agent{}, startedAt: map[types.UID]time.Time{}, applied: map[types.UID]agentapi.Applied{}, deletedAt: map[types.UID]time.Time{},
		loaded: map[types.UID]generations{}, uids: map[types.NamespacedName]types.UID{},
		roles: map[types.NamespacedName]map[string]agentapi.DesiredRole{},
	}
}

// watch reconciles on every change of objects that belong to a PostgreSQL.
func (p *Kubelet) watch(ctx context.Context) error {
	for _, kind := range []client.Object{
		&databasev1alpha1.PostgreSQL{}, &k8sappsv1.StatefulSet{}, &corev1.Pod{}, &corev1.PersistentVolumeClaim{}, &coordinationv1.Lease{}, &corev1.Secret{},
	} {
		informer, err := p.cache.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: p.changed, UpdateFunc: func(_, object any) { p.changed(object) }, DeleteFunc: p.changed,
		})
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	return nil
}

func (p *Kubelet) changed(object any) {
	if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	switch o := object.(type) {
	case *databasev1alpha1.PostgreSQL:
		p.queue.Add(client.ObjectKeyFromObject(o))
	case client.Object:
		if name := o.GetLabels()[labelOwner]; name != "" {
			p.queue.Add(types.NamespacedName{Namespace: o.GetNamespace(), Name: name})
		}
	}
}

func (p *Kubelet) run(ctx context.Context) {
	p.goroutines.Go(func() { p.logError(ctx, p.cache.Start(ctx)) })
	for range 2 {
		p.goroutines.Go(func() { p.work(ctx) })
	}
	p.goroutines.Go(func() {
		<-ctx.Done()
		p.queue.ShutDown()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.closed = true
		for _, a := range p.agents {
			_ = a.server.Close()
		}
	})
}

// Wait waits until everything has stopped, after the context of Start is done.
func (p *Kubelet) Wait() { p.goroutines.Wait() }

// Update reads or changes the exported fields, and reconciles everything. f may panic, as a failed expectation does.
func (p *Kubelet) Update(f func(*Kubelet)) {
	func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		f(p)
	}()
	for _, object := range p.statefulSets() {
		p.changed(object)
	}
}

// statefulSets lists the StatefulSets.
func (p *Kubelet) statefulSets() []*k8sappsv1.StatefulSet {
	sets := &k8sappsv1.StatefulSetList{}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := p.cache.List(ctx, sets); err != nil {
		p.logError(ctx, err)
	}
	var out []*k8sappsv1.StatefulSet
	for i := range sets.Items {
		out = append(out, &sets.Items[i])
	}
	return out
}

func (p *Kubelet) logError(ctx context.Context, err error) {
	ordinary := apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) // the cache is behind
	if err != nil && ctx.Err() == nil && !ordinary && p.options.Log != nil {
		p.options.Log(fmt.Errorf("fakepg: %w", err))
	}
}

func (p *Kubelet) work(ctx context.Context) {
	for {
		key, done := p.queue.Get()
		if done {
			return
		}
		if err := p.sync(ctx, key); err != nil && ctx.Err() == nil {
			p.logError(ctx, err)
			p.queue.AddRateLimited(key)
		} else {
			p.queue.Forget(key)
		}
		p.queue.Done(key)
	}
}

// get reads from the cache. It is false if the object does not exist.
func (p *Kubelet) get(ctx context.Context, key types.NamespacedName, obj client.Object) (bool, error) {
	err := p.cache.Get(ctx, key, obj)
	return err == nil, client.IgnoreNotFound(err)
}
