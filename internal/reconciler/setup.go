package reconciler

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/monitoring"
	"github.com/fettle-dev/fettle/internal/requeue"
)

const (
	// CoalescingWindow is how long a status that reports only progress is delayed. A creation or a change that succeeds within it
	// costs one status write.
	CoalescingWindow = 3 * time.Second

	// LabelOwnerKind is on the children of all kinds, with LabelOwnerName.
	LabelOwnerKind = "fettle.dev/owner-kind"
	// LabelOwnerName is the name of the owner.
	LabelOwnerName = "fettle.dev/owner-name"
)

// Options are those of every controller.
type Options struct {
	// Workers is how many objects of the kind are reconciled at once.
	Workers int
	// WatchSecrets is false if the role does not permit it. Secrets are then read periodically.
	WatchSecrets bool
	Metrics      *monitoring.Metrics
	// Clock is the system's if it is nil.
	Clock clock.PassiveClock
}

// Tools are what the controller of a kind works with.
type Tools struct {
	Options
	// Kind is the name of the kind in metrics and errors. In lower case, it is the name of the controller and its field owner.
	Kind     string
	Client   client.Client
	Live     client.Reader
	Applier  *apply.Applier
	Throttle *conditions.StatusThrottle
	Events   events.EventRecorder

	list client.ObjectList
}

// Index finds objects in the cache by the values of a field.
type Index struct {
	Object client.Object
	Field  string
	Values client.IndexerFunc
}

// New returns the tools of a kind, and adds its indexes to the manager's cache. list is an empty list of the kind.
func New(mgr ctrl.Manager, kind string, list client.ObjectList, opts Options, indexes ...Index) (Tools, error) {
	name := strings.ToLower(kind)
	applier, err := apply.New(mgr, name)
	if err != nil {
		return Tools{}, fmt.Errorf("set up controller %s: %w", name, err)
	}
	for _, ix := range indexes {
		//nolint:forbidigo // nothing is waited for before the manager starts
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), ix.Object, ix.Field, ix.Values); err != nil {
			return Tools{}, fmt.Errorf("set up controller %s: index %T by %s: %w", name, ix.Object, ix.Field, err)
		}
	}
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	return Tools{
		Options: opts, Kind: kind, list: list, Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Applier: applier,
		Throttle: conditions.NewStatusThrottle(CoalescingWindow, clock.RealClock{}), Events: mgr.GetEventRecorder(name),
	}, nil
}

// Setup registers the controller with the manager. watch adds the triggers other than the objects of the kind. These have no predicate: a
// status that another client removed is written again, and the reconcile after Fettle's own write changes nothing.
func (f *Reconciler[T, O]) Setup(mgr ctrl.Manager, watch func(*builder.Builder)) (controller.Controller, error) {
	name, retried := strings.ToLower(f.Kind), requeue.WithBackoff(f)
	b := ctrl.NewControllerManagedBy(mgr).Named(name).For(O(new(T))).WithOptions(retried.Options(f.Workers))
	watch(b)
	c, err := b.Build(retried)
	if err != nil {
		return nil, fmt.Errorf("set up controller %s: %w", name, err)
	}
	return c, nil
}

// Requests returns a request for each matching object of the kind. It reads the cache, which fails only while it is stopped.
func (t *Tools) Requests(ctx context.Context, opts ...client.ListOption) []reconcile.Request {
	list := t.list.DeepCopyObject().(client.ObjectList)
	if err := t.Client.List(ctx, list, append(opts, client.UnsafeDisableDeepCopy)...); err != nil {
		log.FromContext(ctx).Error(err, "failed to list the objects that an event concerns", "kind", t.Kind)
		return nil
	}
	requests := make([]reconcile.Request, 0, meta.LenList(list))
	_ = meta.EachListItem(list, func(o runtime.Object) error { // the function never fails
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o.(client.Object))})
		return nil
	})
	return requests
}

// RequestsBy returns a request for each object of the kind in the namespace that has this value in an index.
func (t *Tools) RequestsBy(ctx context.Context, namespace, field, value string) []reconcile.Request {
	return t.Requests(ctx, client.InNamespace(namespace), client.MatchingFields{field: value})
}

// EnqueueBy maps an object of another kind to the objects of this kind in its namespace that have prefix and its name in an index.
func (t *Tools) EnqueueBy(field, prefix string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		return t.RequestsBy(ctx, o.GetNamespace(), field, prefix+o.GetName())
	})
}

// EnqueueOwner maps an object that the kind labels, but does not control, to its owner.
func (t *Tools) EnqueueOwner() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		var requests []reconcile.Request
		for _, name := range OwnerNames(t.Kind)(o) {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}})
		}
		return requests
	})
}

// OwnerNames indexes objects by the label with the name of their owner of the given kind.
func OwnerNames(kind string) client.IndexerFunc {
	return func(o client.Object) []string {
		if l := o.GetLabels(); l[LabelOwnerKind] == kind && l[LabelOwnerName] != "" {
			return []string{l[LabelOwnerName]}
		}
		return nil
	}
}

// Selector returns the labels that name the owner of a child. They never change: the selector of a Deployment is immutable.
func Selector(kind, owner string) map[string]string {
	return map[string]string{LabelOwnerKind: kind, LabelOwnerName: owner}
}

// Labels returns the labels of every child.
func Labels(kind, owner, component string) map[string]string {
	l := map[string]string{
		"app.kubernetes.io/name":       owner,
		"app.kubernetes.io/instance":   owner,
		"app.kubernetes.io/component":  component,
		"app.kubernetes.io/managed-by": "fettle",
	}
	maps.Copy(l, Selector(kind, owner))
	return l
}

// Restarted counts the restarts of workloads for obj, and emits an event with this note unless it is "".
func (t *Tools) Restarted(obj client.Object, restarts int, note string) {
	for range restarts {
		t.Metrics.ConfigChanged(t.Kind, client.ObjectKeyFromObject(obj))
	}
	if note != "" {
		t.Events.Eventf(obj, nil, corev1.EventTypeNormal, "Restarted", "Restart", "%s", note)
	}
}

// OnlyDeletion is for objects of which only the deletion matters, since it frees their names.
var OnlyDeletion = builder.WithPredicates(predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	UpdateFunc:  func(event.UpdateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
})
