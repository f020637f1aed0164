// Package webapppolicy says in the status of a WebAppPolicy which of the WebApps that exist break it. That new ones keep
// to it is up to the webhook.
//
// It owns nothing. It reads WebApps, and the names and labels of namespaces.
package webapppolicy

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
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

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/monitoring"
)

const (
	controllerName = "webapppolicy"
	kind           = "WebAppPolicy"

	// debounce gathers changes of WebApps and namespaces: 1,000 that come together are looked at once.
	debounce = time.Second
)

// +kubebuilder:rbac:groups=apps.fettle.dev,resources=webapppolicies;webapps,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.fettle.dev,resources=webapppolicies/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options of the controller.
type Options struct {
	// Workers is how many policies are looked at at once.
	Workers int
	// Webhooks is false where the operator serves none, so that nothing is refused.
	Webhooks bool
	Metrics  *monitoring.Metrics
}

type reconciler struct {
	client   client.Client
	applier  *apply.Applier
	events   events.EventRecorder
	metrics  *monitoring.Metrics
	pace     *conditions.Pace
	webhooks bool
}

// Setup registers the controller with the manager.
func Setup(mgr ctrl.Manager, opts Options) error {
	applier, err := apply.New(mgr, controllerName)
	if err != nil {
		return fmt.Errorf("set up controller %s: %w", controllerName, err)
	}
	r := &reconciler{
		client:   mgr.GetClient(),
		applier:  applier,
		events:   mgr.GetEventRecorder(controllerName),
		metrics:  opts.Metrics,
		pace:     conditions.NewPace(0, clock.RealClock{}),
		webhooks: opts.Webhooks,
	}
	err = ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		For(&appsv1.WebAppPolicy{}).
		Watches(&appsv1.WebApp{}, r.allPolicies(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesMetadata(&corev1.Namespace{}, r.allPolicies(), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: opts.Workers}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller %s: %w", controllerName, err)
	}
	return nil
}

// Reconcile finds the WebApps that break one policy, and writes its status where that has changed.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	p := &appsv1.WebAppPolicy{}
	if err := r.client.Get(ctx, req.NamespacedName, p); apierrors.IsNotFound(err) {
		r.applier.Forget(req.NamespacedName)
		r.metrics.Gone(kind, req.NamespacedName)
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("get WebAppPolicy: %w", err)
	}
	if p.DeletionTimestamp != nil || !r.applier.Current(p) {
		return reconcile.Result{}, nil // the watch brings what was last written
	}
	before := p.DeepCopy()
	seen, err := r.observe(ctx, p)
	if err != nil {
		return reconcile.Result{}, err
	}
	setStatus(p, seen)
	wait, err := r.report(ctx, p, before)
	return reconcile.Result{RequeueAfter: wait}, err
}

func (r *reconciler) observe(ctx context.Context, p *appsv1.WebAppPolicy) (observed, error) {
	seen := observed{webhooks: r.webhooks}
	namespaces := &metav1.PartialObjectMetadataList{}
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	// Shared with the cache, so read and never written to: a copy of 10,000 WebApps takes long.
	if err := r.client.List(ctx, namespaces, client.UnsafeDisableDeepCopy); err != nil {
		return seen, fmt.Errorf("list namespaces: %w", err)
	}
	seen.selected, seen.selectorErr = selectedBy(p, namespaces.Items)
	if len(seen.selected) == 0 {
		return seen, nil
	}
	apps := &appsv1.WebAppList{}
	if err := r.client.List(ctx, apps, client.UnsafeDisableDeepCopy); err != nil {
		return seen, fmt.Errorf("list WebApps: %w", err)
	}
	var err error
	seen.violations, err = violationsOf(p, seen.selected, apps.Items)
	return seen, err
}

// report writes the status, and an event when something else has become true of the policy. It returns how long to wait
// where only the violations differ, which are counted anew with every WebApp of many.
func (r *reconciler) report(ctx context.Context, p, before *appsv1.WebAppPolicy) (time.Duration, error) {
	if !equality.Semantic.DeepEqual(p.Status, before.Status) {
		onlyCounted := p.Status.ObservedGeneration == before.Status.ObservedGeneration && readyOf(p) == readyOf(before)
		if wait := r.pace.Hold(p, false, onlyCounted); wait > 0 {
			return wait, nil
		}
	}
	wrote, err := r.applier.PatchStatus(ctx, p, before)
	if err != nil {
		return 0, err
	}
	if wrote {
		r.pace.Wrote(p)
	}
	ready, was := readyOf(p), readyOf(before)
	r.metrics.Ready(kind, client.ObjectKeyFromObject(p), ready.Status == metav1.ConditionTrue)
	if wrote && ready.Reason != was.Reason {
		eventType := corev1.EventTypeNormal
		if ready.Status != metav1.ConditionTrue {
			eventType = corev1.EventTypeWarning
		}
		r.events.Eventf(p, nil, eventType, ready.Reason, "Reconcile", "%s", ready.Message)
	}
	return 0, nil
}

// allPolicies enqueues every policy a moment later, and once for all that changes until then.
func (r *reconciler) allPolicies() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(ctx context.Context, q queue) {
		policies := &appsv1.WebAppPolicyList{}
		if err := r.client.List(ctx, policies, client.UnsafeDisableDeepCopy); err != nil {
			log.FromContext(ctx).Error(err, "list WebAppPolicies")
			return
		}
		for i := range policies.Items {
			q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&policies.Items[i])}, debounce)
		}
	}
	return handler.Funcs{
		CreateFunc:  func(ctx context.Context, _ event.CreateEvent, q queue) { enqueue(ctx, q) },
		UpdateFunc:  func(ctx context.Context, _ event.UpdateEvent, q queue) { enqueue(ctx, q) },
		DeleteFunc:  func(ctx context.Context, _ event.DeleteEvent, q queue) { enqueue(ctx, q) },
		GenericFunc: func(ctx context.Context, _ event.GenericEvent, q queue) { enqueue(ctx, q) },
	}
}
