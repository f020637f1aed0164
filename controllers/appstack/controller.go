// Package appstack runs an AppStack: it creates, changes and deletes its components in the order of their dependencies. internal/stack
// decides what the components are and what to do next; this package reads and writes.
//
// It owns WebApps, PostgreSQLs, AppConfigs, and the objects of caches and MySQLs. The Secret of a MySQL has no owner: what
// keeps the volume keeps it too. A finalizer holds the AppStack until its components are deleted.
package appstack

import (
	"context"
	"fmt"
	"slices"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/monitoring"
	"github.com/fettle-dev/fettle/internal/reconciler"
	"github.com/fettle-dev/fettle/internal/requeue"
	"github.com/fettle-dev/fettle/internal/stack"
)

// +kubebuilder:rbac:groups=platform.fettle.dev,resources=appstacks,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=platform.fettle.dev,resources=appstacks/status,verbs=patch
// +kubebuilder:rbac:groups=platform.fettle.dev,resources=appstacks/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps.fettle.dev,resources=webapps,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=database.fettle.dev,resources=postgresqls,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=config.fettle.dev,resources=appconfigs,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=backup.fettle.dev,resources=backups,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=list;watch;patch
// +kubebuilder:rbac:groups="",resources=pods;namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// fieldOwner of the writes that the applier does not make.
const fieldOwner = "appstack"

// statusInterval is the least time between two writes of an AppStack's status.
const statusInterval = time.Second

// Options of the controller.
type Options struct {
	reconciler.Options
	// Stack are the settings of all AppStacks.
	Stack stack.Options
}

// Reconciler reconciles AppStacks.
type Reconciler struct {
	reconciler.Tools
	options stack.Options
}

// Setup registers the controller with the manager.
func Setup(mgr ctrl.Manager, opts Options) error {
	tools, err := reconciler.New(mgr, monitoring.KindAppStack, &platformv1.AppStackList{}, opts.Options, indexes...)
	if err != nil {
		return err
	}
	r := &Reconciler{Tools: tools, options: opts.Stack}
	kind := &reconciler.Reconciler[platformv1.AppStack, *platformv1.AppStack]{
		Tools: tools, ReconcileObject: r.reconcile, Finalize: r.finalize, Progress: progress, StatusDelay: r.statusDelay, ReadyNote: readyNote, Created: created,
	}
	_, err = kind.Setup(mgr, r.watch)
	return err
}

// Indexes of the AppStacks that an event concerns.
const (
	indexExternal = "spec.components.external"
	indexPods     = "stackOwner"
)

var indexes = []reconciler.Index{
	{Object: &platformv1.AppStack{}, Field: indexExternal, Values: func(o client.Object) (names []string) {
		s := o.(*platformv1.AppStack)
		for i := range s.Spec.Components {
			if e := s.Spec.Components[i].External; e != nil {
				names = append(names, e.SecretRef.Name)
			}
		}
		return names
	}},
	{Object: &corev1.Pod{}, Field: indexPods, Values: reconciler.OwnerNames(stack.OwnerKind)},
}

// watch adds the triggers of the controller.
func (r *Reconciler) watch(b *builder.Builder) {
	b.Owns(&appsv1.WebApp{}).
		Owns(&databasev1alpha1.PostgreSQL{}).
		Owns(&configv1.AppConfig{}).
		Owns(&backupv1alpha1.Backup{}).
		Owns(&k8sappsv1.StatefulSet{}).
		Owns(&corev1.Service{}).
		Owns(&networkingv1.NetworkPolicy{}).
		Watches(&corev1.Pod{}, r.EnqueueOwner()).
		Watches(&corev1.PersistentVolumeClaim{}, r.EnqueueOwner())
	if r.WatchSecrets {
		b.Watches(&corev1.Secret{}, r.EnqueueOwner()).
			WatchesMetadata(&corev1.Secret{}, r.EnqueueBy(indexExternal, ""))
	}
}

func (r *Reconciler) statusDelay(s, _ *platformv1.AppStack) time.Duration {
	onlyProgress := conditions.ReadyOf(s).Reason == platformv1.ReasonDeploying
	return max(r.Throttle.Delay(s, onlyProgress, false), r.Throttle.Remaining(s, statusInterval))
}

func (r *Reconciler) reconcile(ctx context.Context, s *platformv1.AppStack) (reconcile.Result, error) {
	if s.Spec.Paused {
		conditions.SetPaused(s, "the components stay as they are, under their own controllers")
		return reconcile.Result{}, nil
	}
	if !controllerutil.ContainsFinalizer(s, stack.Finalizer) {
		return reconcile.Result{}, r.addFinalizer(ctx, s)
	}
	existing, err := stack.Read(ctx, r.Client, s)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("read what exists of AppStack %q: %w", s.Name, err)
	}
	plan, errs := stack.New(s, r.options, existing)
	if len(errs) > 0 {
		setInvalid(s, errs)
		return reconcile.Result{}, nil
	}
	children, current, err := r.children(ctx, s)
	if err != nil || !current {
		return reconcile.Result{}, err // or the watch brings what was written
	}
	removed := stack.Removed(plan, children)
	states, refused, err := r.applyAll(ctx, s, plan, removed)
	if err != nil {
		return reconcile.Result{}, err
	}
	next, err := r.deleteRemoved(ctx, s, removed, children)
	if err != nil {
		return reconcile.Result{}, err
	}
	deadline := setStatus(s, plan, states, removed, r.Clock.Now())
	return reconcile.Result{RequeueAfter: reconciler.Sooner(reconciler.Sooner(next, deadline), r.resync(plan))}, refused
}

// resync is when to look at the Secrets of external servers again where they cannot be watched; 0 for never.
func (r *Reconciler) resync(plan *stack.Plan) time.Duration {
	for i := range plan.Components {
		if plan.Components[i].Kind == stack.KindExternal && !r.WatchSecrets {
			return time.Minute
		}
	}
	return 0
}

// addFinalizer writes the finalizer. The watch triggers the next reconcile.
func (r *Reconciler) addFinalizer(ctx context.Context, s *platformv1.AppStack) error {
	changed := s.DeepCopy()
	controllerutil.AddFinalizer(changed, stack.Finalizer)
	patch := client.MergeFromWithOptions(s.DeepCopy(), client.MergeFromWithOptimisticLock{})
	err := requeue.IfOutdated(ctx, r.Client.Patch(ctx, changed, patch, client.FieldOwner(fieldOwner)))
	if err != nil {
		return fmt.Errorf("add the finalizer of AppStack %q: %w", s.Name, err)
	}
	return nil
}

// children returns the main objects of the components that exist, those of removed components included. current is false while the cache
// does not show all that was written.
func (r *Reconciler) children(ctx context.Context, s *platformv1.AppStack) (children []stack.Child, current bool, err error) {
	if current, err = r.Applier.CacheCurrent(ctx, s); err != nil || !current {
		return nil, false, err
	}
	mine := []client.ListOption{client.InNamespace(s.Namespace), client.MatchingLabels(reconciler.Selector(stack.OwnerKind, s.Name))}
	for _, kind := range mainKinds {
		list := kind.list()
		if err := r.Client.List(ctx, list, mine...); err != nil {
			return nil, false, fmt.Errorf("list the components of AppStack %q: %w", s.Name, err)
		}
		children = append(children, childrenOf(s, kind.name, list)...)
	}
	return children, true, nil
}

// applyAll brings each component to its next state, in order. refused are errors of single child objects, of which the status tells too.
func (r *Reconciler) applyAll(ctx context.Context, s *platformv1.AppStack, plan *stack.Plan, removed []stack.Child) (states map[string]stack.State, refused, err error) {
	states = map[string]stack.State{}
	for i := range plan.Components {
		c := &plan.Components[i]
		state, err := r.applyOne(ctx, s, c, states, removed)
		if err != nil {
			return nil, nil, fmt.Errorf("component %s: %w", c.Name, err)
		}
		if state.Failed != nil && refused == nil {
			refused = fmt.Errorf("component %s: %w", c.Name, state.Failed)
		}
		states[c.Name] = state
	}
	return states, refused, nil
}

// applyOne does the next step of one component, and returns its state after it.
func (r *Reconciler) applyOne(ctx context.Context, s *platformv1.AppStack, c *stack.Component, seen map[string]stack.State, removed []stack.Child) (stack.State, error) {
	version, failed, err := r.secretVersion(ctx, c)
	if err != nil {
		return stack.State{}, err
	}
	asked, err := r.asked(ctx, s, c, version)
	if err != nil {
		return stack.State{}, err
	}
	step, waitsFor := stack.Next(c, asked, seen)
	if step == stack.Apply && replaces(c, removed) {
		step, waitsFor = stack.Wait, c.Name
	}
	if step == stack.Apply && failed == nil {
		version, failed = r.write(ctx, s, c, version)
		if apply.Transient(failed) {
			return stack.State{}, failed
		}
		if asked, err = r.asked(ctx, s, c, version); err != nil {
			return stack.State{}, err
		}
	}
	state, err := r.observe(ctx, s, c)
	if err != nil {
		return stack.State{}, err
	}
	state.Asked = asked || c.Kind == stack.KindExternal || c.Suspended
	state.Failed = failed
	if step == stack.Wait {
		describeWait(&state, waitsFor, seen, c)
	}
	return state, nil
}

// replaces reports whether c has the name of a component of another kind that still exists.
func replaces(c *stack.Component, removed []stack.Child) bool {
	return slices.ContainsFunc(removed, func(child stack.Child) bool { return child.Component == c.Name })
}

// asked reports whether all objects of c were last written with the desired content.
func (r *Reconciler) asked(ctx context.Context, s *platformv1.AppStack, c *stack.Component, version string) (bool, error) {
	for _, o := range c.Objects(version) {
		if asked, err := r.Applier.Asked(ctx, s, o); err != nil || !asked {
			return false, err
		}
	}
	return true, nil
}
