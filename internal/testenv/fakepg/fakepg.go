// Package fakepg is a fake of what is around the operator's PostgreSQLs: the StatefulSet controller, the kubelet, the
// provisioner of volumes, the garbage collector, and the agents with their protocol and their Lease. Nothing of it runs
// PostgreSQL: it makes pods and claims, labels the pods, and answers with what a spec says. The real ones are tested elsewhere.
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

// labelOwner is on all that belongs to a PostgreSQL, with its name.
const labelOwner = "fettle.dev/owner-name"

// Options of a Plane.
type Options struct {
	// Namespace is the only one that is served; all of them if it is empty.
	Namespace string
	// Start is how long an instance takes to serve after its pod was made, and after a restart in place.
	Start time.Duration
	// Log is called with what went wrong and is tried again; nil drops it.
	Log func(error)
}

// Plane serves PostgreSQLs. The exported fields say what it does and note what it did; With reads and changes them.
type Plane struct {
	// Held pods do not become Ready, by name; the value is the reason that their container waits for.
	Held map[string]string
	// Unschedulable pods stay without a node; the value is what the scheduler says.
	Unschedulable map[string]string
	// Nodes are where pods have their volumes, by pod: they run there or nowhere. Those that are not here have no node.
	Nodes map[string]string
	// Missing pods are not made at all, as where a quota refuses them.
	Missing map[string]bool
	// Unbound claims get no volume, by the name of their pod. Stuck ones don't grow; the value is what Kubernetes says.
	Unbound map[string]bool
	Stuck   map[string]string
	// Pending parameters are reported by agents until they are told to restart, by pod.
	Pending map[string][]string
	// Used is how full a volume is, in percent of spec.storage, by pod.
	Used map[string]int
	// Status changes what the agent of a pod says of itself.
	Status map[string]func(*agentapi.Status)
	// Refuse is the error that is answered for each wish of that name.
	Refuse map[string]string
	// Fulfil carries out what a primary is told; nil does nothing.
	Fulfil func(context.Context, agentapi.Desired) (agentapi.Result, error)
	// Timeline is what the agents say they are on.
	Timeline int
	// Told is what primaries were asked to have, Restarted and Replaced are pods; all in order.
	Told                []agentapi.Desired
	Restarted, Replaced []string

	options Options
	cache   cache.Cache
	client  client.Client
	queue   workqueue.TypedRateLimitingInterface[types.NamespacedName]
	working sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	agents  map[types.UID]*agent
	applied map[types.UID]agentapi.Applied     // what a pod has applied
	began   map[types.UID]time.Time            // when a pod was seen first, or its server was restarted
	ending  map[types.UID]time.Time            // when the deletion of a pod was seen
	loaded  map[types.UID]generations          // of the spec, by pod
	uids    map[types.NamespacedName]types.UID // of the pods
	roles   map[types.NamespacedName]map[string]agentapi.DesiredRole
}

// Start serves until ctx ends. The caller's identity needs all rights.
func Start(ctx context.Context, config *rest.Config, options Options) (*Plane, error) {
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
	p := newPlane(options, seen, writer)
	if err := p.watch(ctx); err != nil {
		return nil, err
	}
	p.run(ctx)
	if !seen.WaitForCacheSync(ctx) {
		return nil, fmt.Errorf("cache of the fake: %w", context.Cause(ctx))
	}
	return p, nil
}

func newPlane(options Options, seen cache.Cache, writer client.Client) *Plane {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](5*time.Millisecond, time.Second)
	return &Plane{
		Held: map[string]string{}, Unschedulable: map[string]string{}, Missing: map[string]bool{}, Unbound: map[string]bool{}, Stuck: map[string]string{},
		Nodes: map[string]string{}, Pending: map[string][]string{}, Used: map[string]int{}, Status: map[string]func(*agentapi.Status){}, Refuse: map[string]string{}, Timeline: 1,
		options: options, cache: seen, client: writer, queue: workqueue.NewTypedRateLimitingQueue(limiter),
		agents: map[types.UID]*agent{}, began: map[types.UID]time.Time{}, applied: map[types.UID]agentapi.Applied{}, ending: map[types.UID]time.Time{},
		loaded: map[types.UID]generations{}, uids: map[types.NamespacedName]types.UID{},
		roles: map[types.NamespacedName]map[string]agentapi.DesiredRole{},
	}
}

// watch has every change of what belongs to a PostgreSQL looked at.
func (p *Plane) watch(ctx context.Context) error {
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

func (p *Plane) changed(object any) {
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

func (p *Plane) run(ctx context.Context) {
	p.working.Go(func() { p.complain(ctx, p.cache.Start(ctx)) })
	for range 2 {
		p.working.Go(func() { p.work(ctx) })
	}
	p.working.Go(func() {
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

// Wait returns when all has ended, after the context of Start has.
func (p *Plane) Wait() { p.working.Wait() }

// With changes what the fake does from now on, or reads what it did.
func (p *Plane) With(f func(*Plane)) {
	p.mu.Lock()
	f(p)
	p.mu.Unlock()
	for _, object := range p.cacheOf() {
		p.changed(object)
	}
}

// cacheOf lists the StatefulSets.
func (p *Plane) cacheOf() []*k8sappsv1.StatefulSet {
	sets := &k8sappsv1.StatefulSetList{}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := p.cache.List(ctx, sets); err != nil {
		p.complain(ctx, err)
	}
	var out []*k8sappsv1.StatefulSet
	for i := range sets.Items {
		out = append(out, &sets.Items[i])
	}
	return out
}

func (p *Plane) complain(ctx context.Context, err error) {
	ordinary := apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) // the cache is behind
	if err != nil && ctx.Err() == nil && !ordinary && p.options.Log != nil {
		p.options.Log(fmt.Errorf("fake of PostgreSQL: %w", err))
	}
}

func (p *Plane) work(ctx context.Context) {
	for {
		key, done := p.queue.Get()
		if done {
			return
		}
		if err := p.sync(ctx, key); err != nil && ctx.Err() == nil {
			p.complain(ctx, err)
			p.queue.AddRateLimited(key)
		} else {
			p.queue.Forget(key)
		}
		p.queue.Done(key)
	}
}

// get reads from memory; it is false for what does not exist.
func (p *Plane) get(ctx context.Context, key types.NamespacedName, obj client.Object) (bool, error) {
	err := p.cache.Get(ctx, key, obj)
	return err == nil, client.IgnoreNotFound(err)
}
