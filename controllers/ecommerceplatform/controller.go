// Package ecommerceplatform runs an EcommercePlatform as one AppStack of the same name.
//
// It owns the AppStack, and mirrors its status. Package internal/stack/ecommerce says what is in the AppStack; the controller of
// AppStacks does everything else, also the deletion in order.
package ecommerceplatform

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/monitoring"
	"github.com/fettle-dev/fettle/internal/optionalapi"
	"github.com/fettle-dev/fettle/internal/reconciler"
	"github.com/fettle-dev/fettle/internal/stack/ecommerce"
)

// +kubebuilder:rbac:groups=platform.fettle.dev,resources=ecommerceplatforms,verbs=get;list;watch
// +kubebuilder:rbac:groups=platform.fettle.dev,resources=ecommerceplatforms/status,verbs=patch
// +kubebuilder:rbac:groups=platform.fettle.dev,resources=ecommerceplatforms/finalizers,verbs=update
// +kubebuilder:rbac:groups=platform.fettle.dev,resources=appstacks,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles EcommercePlatforms.
type Reconciler struct {
	reconciler.Tools
	apis *optionalapi.APIs
}

// Setup registers the controller with the manager.
func Setup(mgr ctrl.Manager, opts reconciler.Options) error {
	tools, err := reconciler.New(mgr, monitoring.KindEcommercePlatform, &platformv1.EcommercePlatformList{}, opts)
	if err != nil {
		return err
	}
	r := &Reconciler{Tools: tools}
	r.apis = optionalapi.New(mgr, &platformv1.EcommercePlatform{}, optionalAPIs()...)
	kind := &reconciler.Reconciler[platformv1.EcommercePlatform, *platformv1.EcommercePlatform]{
		Tools: tools, ReconcileObject: r.reconcile, Progress: progress, StatusDelay: r.statusDelay, Created: created,
	}
	_, err = kind.Setup(mgr, r.watch)
	return err
}

func (r *Reconciler) reconcile(ctx context.Context, p *platformv1.EcommercePlatform) (reconcile.Result, error) {
	served, err := r.apis.Find(ctx, nil)
	if err != nil {
		return reconcile.Result{}, err
	}
	failed, applyErr := r.apply(ctx, p, monitored(served))
	if apply.Transient(applyErr) {
		return reconcile.Result{}, applyErr
	}
	live, current, err := r.live(ctx, p)
	if err != nil {
		return reconcile.Result{}, err
	}
	if failed == nil && (live == nil || !current) {
		return reconcile.Result{}, nil // the watch brings what was written
	}
	setStatus(p, live, failed)
	return reconcile.Result{}, applyErr
}

// apply writes the AppStack. It returns why it could not, and the error, which is nil if only another spec helps.
func (r *Reconciler) apply(ctx context.Context, p *platformv1.EcommercePlatform, monitored bool) (*problem, error) {
	spec, errs := ecommerce.Stack(p, monitored)
	if len(errs) > 0 {
		return &problem{platformv1.ReasonInvalidSpec, errs.ToAggregate().Error()}, nil
	}
	if err := r.Applier.Apply(ctx, p, appStack(p, spec)); err != nil {
		return &problem{apply.Reason(err), err.Error()}, err
	}
	return nil, nil
}

// live returns p's AppStack from the cache, nil if there is none or if another owner has it, and whether the cache shows the last write
// to it.
func (r *Reconciler) live(ctx context.Context, p *platformv1.EcommercePlatform) (*platformv1.AppStack, bool, error) {
	live := &platformv1.AppStack{}
	live.Namespace, live.Name = p.Namespace, p.Name
	found, current, err := r.Applier.Get(ctx, live)
	if err != nil {
		return nil, false, fmt.Errorf("get AppStack %q: %w", p.Name, err)
	}
	if !found || !metav1.IsControlledBy(live, p) {
		return nil, current, nil
	}
	return live, current, nil
}

// watch adds the triggers of the controller. The deletion of another owner's AppStack frees its name.
func (r *Reconciler) watch(b *builder.Builder) {
	b.Owns(&platformv1.AppStack{}).
		Watches(&platformv1.AppStack{}, &handler.EnqueueRequestForObject{}, reconciler.OnlyDeletion)
	r.apis.Trigger(b, func(ctx context.Context, _ string) []reconcile.Request { return r.Requests(ctx) })
}

// optionalAPIs are those that the monitoring of a PostgreSQL needs. Only their definitions are of interest here: their objects belong to
// the PostgreSQL.
func optionalAPIs() []optionalapi.API {
	pods, rules := optionalapi.PodMonitor, optionalapi.PrometheusRule
	ignore := func(context.Context, *unstructured.Unstructured) []reconcile.Request { return nil }
	pods.Concerned, rules.Concerned = ignore, ignore
	return []optionalapi.API{pods, rules}
}

func monitored(served optionalapi.Served) bool {
	return !served.Missing[optionalapi.PodMonitor.Kind] && !served.Missing[optionalapi.PrometheusRule.Kind]
}
