// Package grafanadashboard maintains one ConfigMap in the operator's namespace with the dashboards of all kinds. Grafana's sidecar
// finds it by its label. One ConfigMap serves all objects, since the dashboards have variables.
//
// The operator's Deployment owns it, if there is one, and it is deleted with the Deployment.
package grafanadashboard

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/fettle-dev/fettle/internal/monitoring/dashboards"
	"github.com/fettle-dev/fettle/internal/requeue"
)

const (
	controllerName = "dashboard"
	// name of the ConfigMap.
	name = "fettle-dashboards"
	// deployment is the name of the operator's Deployment.
	deployment = "fettle-controller-manager"
	// retry is the delay before the next check of an object that is in the way.
	retry = 10 * time.Minute
)

// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get

// Options of the controller.
type Options struct {
	// Namespace is the operator's own. Nothing is created if it is empty or not one of Namespaces.
	Namespace string
	// Namespaces to watch; none means all.
	Namespaces []string
	// Wanted is false to create no dashboards, and to delete those of an earlier version.
	Wanted bool
}

// Reconciler maintains the ConfigMap of the dashboards.
type Reconciler struct {
	client client.Client
	live   client.Reader
	wanted bool
}

// Setup registers the controller with the manager.
func Setup(mgr ctrl.Manager, opts Options) error {
	if opts.Namespace == "" || len(opts.Namespaces) > 0 && !slices.Contains(opts.Namespaces, opts.Namespace) {
		return nil
	}
	key := types.NamespacedName{Namespace: opts.Namespace, Name: name}
	ours := predicate.NewPredicateFuncs(func(o client.Object) bool { return client.ObjectKeyFromObject(o) == key })
	// No event triggers a reconcile while the ConfigMap does not exist.
	first := source.TypedFunc[reconcile.Request](func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(reconcile.Request{NamespacedName: key})
		return nil
	})
	retried := requeue.WithBackoff(&Reconciler{client: mgr.GetClient(), live: mgr.GetAPIReader(), wanted: opts.Wanted})
	err := ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		For(&corev1.ConfigMap{}, builder.WithPredicates(ours)).
		WatchesRawSource(first).
		WithOptions(retried.Options(1)).
		Complete(retried)
	if err != nil {
		return fmt.Errorf("set up controller %s: %w", controllerName, err)
	}
	return nil
}

// Reconcile creates or repairs the ConfigMap. It makes no request if the ConfigMap is as it should be.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	live := &corev1.ConfigMap{}
	err := r.client.Get(ctx, req.NamespacedName, live)
	switch {
	case apierrors.IsNotFound(err) && r.wanted:
		return r.create(ctx, req.Namespace)
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("get ConfigMap %q: %w", name, err)
	case live.DeletionTimestamp != nil:
		return reconcile.Result{}, nil // its deletion triggers a reconcile
	case !r.wanted:
		err := r.client.Delete(ctx, live, client.Preconditions{UID: &live.UID, ResourceVersion: &live.ResourceVersion})
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	return reconcile.Result{}, r.repair(ctx, live)
}

// create creates the ConfigMap, unless another owner has the name.
func (r *Reconciler) create(ctx context.Context, namespace string) (reconcile.Result, error) {
	want := configMap(namespace)
	owner := &k8sappsv1.Deployment{}
	err := r.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: deployment}, owner)
	switch {
	case err == nil:
		want.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: k8sappsv1.SchemeGroupVersion.String(), Kind: "Deployment", Name: owner.Name, UID: owner.UID},
		}
	case !apierrors.IsNotFound(err):
		return reconcile.Result{}, fmt.Errorf("get Deployment %q: %w", deployment, err)
	}
	err = r.client.Create(ctx, want, client.FieldOwner(controllerName))
	switch {
	case apierrors.IsAlreadyExists(err):
		log.FromContext(ctx).Info("the ConfigMap of the dashboards belongs to another owner or was just created; leaving it unchanged", "name", name)
		return reconcile.Result{RequeueAfter: retry}, nil
	case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return reconcile.Result{RequeueAfter: retry}, nil // the operator runs outside of the cluster, or its namespace goes
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("create ConfigMap %q: %w", name, err)
	}
	return reconcile.Result{}, nil
}

// repair reverts changes to the dashboards by users and older versions, and keeps what others added.
func (r *Reconciler) repair(ctx context.Context, live *corev1.ConfigMap) error {
	want, changed := configMap(live.Namespace), live.DeepCopy()
	changed.Data = want.Data
	if changed.Labels == nil {
		changed.Labels = map[string]string{}
	}
	maps.Copy(changed.Labels, want.Labels)
	if equality.Semantic.DeepEqual(live, changed) {
		return nil
	}
	patch := client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{})
	err := r.client.Patch(ctx, changed, patch, client.FieldOwner(controllerName))
	if err := requeue.IfOutdated(ctx, err); err != nil {
		return fmt.Errorf("change ConfigMap %q: %w", name, err)
	}
	return nil
}

// configMap has one file for each dashboard.
func configMap(namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{
			"app.kubernetes.io/name": "fettle", "app.kubernetes.io/part-of": "fettle", "app.kubernetes.io/managed-by": "fettle",
			"grafana_dashboard": "1",
		}},
		Data: map[string]string{"fettle-postgresql.json": dashboards.PostgreSQL},
	}
}
