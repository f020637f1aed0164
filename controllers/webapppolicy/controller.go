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
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/monitoring"
	"github.com/fettle-dev/fettle/internal/policy"
	"github.com/fettle-dev/fettle/internal/reconciler"
)

const (
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
	reconciler.Options
	// Webhooks is false if the operator serves no webhooks, so that nothing is rejected.
	Webhooks bool
}

// Reconciler reconciles WebAppPolicies.
type Reconciler struct {
	reconciler.Tools
	webhooks bool
}

// Setup registers the controller with the manager.
func Setup(mgr ctrl.Manager, opts Options) error {
	tools, err := reconciler.New(mgr, monitoring.KindWebAppPolicy, &appsv1.WebAppPolicyList{}, opts.Options)
	if err != nil {
		return err
	}
	r := &Reconciler{Tools: tools, webhooks: opts.Webhooks}
	kind := &reconciler.Reconciler[appsv1.WebAppPolicy, *appsv1.WebAppPolicy]{
		Tools: tools, ReconcileObject: r.reconcile, Normal: []string{appsv1.ReasonEnforced, appsv1.ReasonWarning}, StatusDelay: r.statusDelay,
	}
	_, err = kind.Setup(mgr, func(b *builder.Builder) {
		b.Watches(&appsv1.WebApp{}, r.allPolicies(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
			Watches(&admissionv1.ValidatingWebhookConfiguration{}, r.allPolicies(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
			WatchesMetadata(&corev1.Namespace{}, r.allPolicies(), builder.WithPredicates(predicate.LabelChangedPredicate{}))
	})
	return err
}

func (r *Reconciler) reconcile(ctx context.Context, p *appsv1.WebAppPolicy) (reconcile.Result, error) {
	seen, err := r.observe(ctx, p)
	if err == nil {
		setStatus(p, seen)
	}
	return reconcile.Result{}, err
}

func (r *Reconciler) observe(ctx context.Context, p *appsv1.WebAppPolicy) (observed, error) {
	seen := observed{served: r.webhooks}
	configurations := &admissionv1.ValidatingWebhookConfigurationList{}
	if err := r.Client.List(ctx, configurations, client.UnsafeDisableDeepCopy); err != nil {
		return seen, fmt.Errorf("list ValidatingWebhookConfigurations: %w", err)
	}
	seen.called = slices.ContainsFunc(configurations.Items, calls)
	namespaces := &metav1.PartialObjectMetadataList{}
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	// Shared with the cache, and read only: a copy of 10,000 WebApps takes long.
	if err := r.Client.List(ctx, namespaces, client.UnsafeDisableDeepCopy); err != nil {
		return seen, fmt.Errorf("list namespaces: %w", err)
	}
	seen.selected, seen.selectorErr = selectedBy(p, namespaces.Items)
	if len(seen.selected) == 0 {
		return seen, nil
	}
	apps := &appsv1.WebAppList{}
	if err := r.Client.List(ctx, apps, client.UnsafeDisableDeepCopy); err != nil {
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
	onlyCounted := p.Status.ObservedGeneration == before.Status.ObservedGeneration && conditions.ReadyOf(p) == conditions.ReadyOf(before)
	return r.Throttle.Delay(p, false, onlyCounted)
}

// allPolicies enqueues every policy after the debounce time, once for all changes until then.
func (r *Reconciler) allPolicies() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(ctx context.Context, q queue) {
		for _, request := range r.Requests(ctx) {
			q.AddAfter(request, debounce)
		}
	}
	return handler.Funcs{
		CreateFunc:  func(ctx context.Context, _ event.CreateEvent, q queue) { enqueue(ctx, q) },
		UpdateFunc:  func(ctx context.Context, _ event.UpdateEvent, q queue) { enqueue(ctx, q) },
		DeleteFunc:  func(ctx context.Context, _ event.DeleteEvent, q queue) { enqueue(ctx, q) },
		GenericFunc: func(ctx context.Context, _ event.GenericEvent, q queue) { enqueue(ctx, q) },
	}
}
