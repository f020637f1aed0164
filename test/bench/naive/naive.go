// Package naive is a controller for WebApps in the style of tutorials: Get, CreateOrUpdate for each child, Status().Update. It is a
// baseline for Fettle and must not be optimized.
package naive

import (
	"context"
	"fmt"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/test/bench/children"
)

// Options of the controller.
type Options struct {
	// Workers is MaxConcurrentReconciles; the default of controllers is 1.
	Workers int
	// Careful skips the write of a child or status that would not change.
	Careful bool
}

type reconciler struct {
	client.Client
	careful bool
}

// Run runs the controller until ctx ends.
func Run(ctx context.Context, config *rest.Config, scheme *runtime.Scheme, opts Options) error {
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return fmt.Errorf("naive manager: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).
		For(&appsv1.WebApp{}).
		Owns(&k8sappsv1.Deployment{}).
		Owns(&corev1.Service{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: opts.Workers}).
		Complete(&reconciler{Client: mgr.GetClient(), careful: opts.Careful})
	if err != nil {
		return fmt.Errorf("naive controller: %w", err)
	}
	return mgr.Start(ctx)
}

// Reconcile writes the children and then the status.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &appsv1.WebApp{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	for _, want := range children.All(app) {
		if err := r.createOrUpdate(ctx, app, want); err != nil {
			return ctrl.Result{}, err
		}
	}
	before := app.Status.DeepCopy()
	status := children.Status(app, metav1.Now())
	for _, condition := range status.Conditions {
		meta.SetStatusCondition(&app.Status.Conditions, condition)
	}
	status.Conditions = app.Status.Conditions
	app.Status = status
	if r.careful && equality.Semantic.DeepEqual(*before, app.Status) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.Status().Update(ctx, app)
}

func (r *reconciler) createOrUpdate(ctx context.Context, app *appsv1.WebApp, want client.Object) error {
	live := want.DeepCopyObject().(client.Object)
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, live, func() error {
		live.SetLabels(want.GetLabels())
		r.setSpec(live, want)
		return controllerutil.SetControllerReference(app, live, r.Scheme())
	})
	return err
}

// setSpec overwrites the spec, including all defaults of the API server.
func (r *reconciler) setSpec(live, want client.Object) {
	switch live := live.(type) {
	case *k8sappsv1.Deployment:
		overwrite(&live.Spec, want.(*k8sappsv1.Deployment).Spec, r.careful)
	case *corev1.Service:
		overwrite(&live.Spec, want.(*corev1.Service).Spec, r.careful)
	}
}

func overwrite[T any](live *T, want T, careful bool) {
	if careful && equality.Semantic.DeepDerivative(want, *live) {
		return
	}
	*live = want
}
