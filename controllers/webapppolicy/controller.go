// Package webapppolicy reports in the status of a WebAppPolicy which existing WebApps violate it. The webhook checks new ones.
//
// It owns nothing. It reads WebApps, the names and labels of namespaces, and whether the API server is configured to call the
// webhook.
package webapppolicy

import (
	"context"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/monitoring"
	"github.com/fettle-dev/fettle/internal/policy"
	"github.com/fettle-dev/fettle/internal/reconciler"
	"github.com/fettle-dev/fettle/internal/requeue"
)

const (
	controllerName = "webapppolicy"

	// debounce coalesces changes of WebApps and namespaces: 1,000 changes cause one reconcile.
	debounce = time.Second
)

// +kubebuilder:rbac:groups=apps.fettle.dev,resources=webapppolicies;webapps,verbs=list;watch
// +kubebuilder:rbac:groups=apps.fettle.dev,resources=webapppolicies/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options of the controller.
type Options struct {
	// Workers is how many policies are reconciled at once.
	Workers int
	// Webhooks is false if the operator serves no webhooks, so that nothing is rejected.
	Webhooks bool
	Metrics  *monitoring.Metrics
}

// Reconciler reconciles WebAppPolicies.
type Reconciler struct {
	client         client.Client
	applier        *apply.Applier
	events         events.EventRecorder
	metrics        *monitoring.Metrics
	statusThrottle *conditions.StatusThrottle
	webhooks       bool
}

// Setup registers the controller with the manager.
func Setup(mgr ctrl.Manager, opts Options) error {
	applier, err := apply.New(mgr, controllerName)
	if err != nil {
		return fmt.Errorf("set up controller %s: %w", controllerName, err)
	}
	r := &Reconciler{
		client:         mgr.GetClient(),
		applier:        applier,
		events:         mgr.GetEventRecorder(controllerName),
		metrics:        opts.Metrics,
		statusThrottle: conditions.NewStatusThrottle(0, clock.RealClock{}),
		webhooks:       opts.Webhooks,
	}
	retried := requeue.WithBackoff(r.kindReconciler())
	err = ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		For(&appsv1.WebAppPolicy{}).
		Watches(&appsv1.WebApp{}, r.allPolicies(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&admissionv1.ValidatingWebhookConfiguration{}, r.allPolicies(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesMetadata(&corev1.Namespace{}, r.allPolicies(), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WithOptions(retried.Options(opts.Workers)).
		Complete(retried)
	if err != nil {
		return fmt.Errorf("set up controller %s: %w", controllerName, err)
	}
	return nil
}

// kindReconciler is the reconciler of the kind.
func (r *Reconciler) kindReconciler() *reconciler.Reconciler[appsv1.WebAppPolicy, *appsv1.WebAppPolicy] {
	return &reconciler.Reconciler[appsv1.WebAppPolicy, *appsv1.WebAppPolicy]{
		Kind: monitoring.KindWebAppPolicy, Client: r.client, Applier: r.applier, Throttle: r.statusThrottle, Clock: clock.RealClock{}, Metrics: r.metrics,
		ReconcileObject: r.reconcile, StatusDelay: r.statusDelay, EmitEvents: r.emitEvents,
		Status: func(p *appsv1.WebAppPolicy) (any, bool) { return p.Status, readyOf(p).Status == metav1.ConditionTrue },
	}
}

func (r *Reconciler) reconcile(ctx context.Context, p *appsv1.WebAppPolicy) (reconcile.Result, error) {
	if p.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	seen, err := r.observe(ctx, p)
	if err == nil {
		setStatus(p, seen)
	}
	return reconcile.Result{}, err
}

func (r *Reconciler) observe(ctx context.Context, p *appsv1.WebAppPolicy) (observed, error) {
	seen := observed{served: r.webhooks}
	configurations := &admissionv1.ValidatingWebhookConfigurationList{}
	if err := r.client.List(ctx, configurations, client.UnsafeDisableDeepCopy); err != nil {
		return seen, fmt.Errorf("list ValidatingWebhookConfigurations: %w", err)
	}
	seen.called = slices.ContainsFunc(configurations.Items, calls)
	namespaces := &metav1.PartialObjectMetadataList{}
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	// Shared with the cache, and read only: a copy of 10,000 WebApps takes long.
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

// calls reports whether a configuration makes the API server call the webhook for WebApps.
func calls(c admissionv1.ValidatingWebhookConfiguration) bool {
	return slices.ContainsFunc(c.Webhooks, func(w admissionv1.ValidatingWebhook) bool { return w.Name == policy.WebhookName })
}

// statusDelay delays the status write if only the violations changed, since each of many WebApps can change them.
func (r *Reconciler) statusDelay(p, before *appsv1.WebAppPolicy) time.Duration {
	onlyCounted := p.Status.ObservedGeneration == before.Status.ObservedGeneration && readyOf(p) == readyOf(before)
	return r.statusThrottle.Delay(p, false, onlyCounted)
}

// emitEvents emits an event for a new reason of Ready.
func (r *Reconciler) emitEvents(p, before *appsv1.WebAppPolicy) {
	ready, was := readyOf(p), readyOf(before)
	if ready.Reason == was.Reason {
		return
	}
	eventType := corev1.EventTypeNormal
	if ready.Status != metav1.ConditionTrue {
		eventType = corev1.EventTypeWarning
	}
	r.events.Eventf(p, nil, eventType, ready.Reason, "Reconcile", "%s", ready.Message)
}

// allPolicies enqueues every policy after the debounce time, once for all changes until then.
func (r *Reconciler) allPolicies() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(ctx context.Context, q queue) {
		policies := &appsv1.WebAppPolicyList{}
		if err := r.client.List(ctx, policies, client.UnsafeDisableDeepCopy); err != nil {
			log.FromContext(ctx).Error(err, "failed to list WebAppPolicies")
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
