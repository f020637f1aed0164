// Package postgresql runs a PostgreSQL as a StatefulSet whose pods are Fettle's agents around official images, with its
// Services, Secrets, certificates, the agents' rights, a PodDisruptionBudget and, where the spec asks for it, monitoring.
//
// It never promotes: the agents choose the primary among themselves, by the Lease that it makes for them. It decides the
// number of instances, their template and their order of change, and says what it sees. It owns those objects; volumes and
// passwords outlive the PostgreSQL unless spec.deletionPolicy is Delete.
package postgresql

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/monitoring"
	"github.com/fettle-dev/fettle/internal/optionalapi"
	"github.com/fettle-dev/fettle/internal/reconciler"
)

const controllerName = "postgresql"

// +kubebuilder:rbac:groups=database.fettle.dev,resources=postgresqls,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=database.fettle.dev,resources=postgresqls/status,verbs=patch
// +kubebuilder:rbac:groups=database.fettle.dev,resources=postgresqls/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services;serviceaccounts,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=list;watch;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=podmonitors;prometheusrules,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// What the operator gives the agents, it has to have: leases, pods to label, events, the Backup to restore and its Secrets. Deleting a pod is the operator's own.
// +kubebuilder:rbac:groups="",resources=events,verbs=create
// +kubebuilder:rbac:groups=backup.fettle.dev,resources=backups,verbs=get;list;watch
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;watch;create;update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch;delete

// Options of the controller.
type Options struct {
	reconciler.Options
	// AgentImage is the image that new instances get their agent from: the operator's own.
	AgentImage string
	// OperatorNamespace is where the operator's pods are, which the NetworkPolicies admit to the agents.
	OperatorNamespace string
}

// Reconciler reconciles PostgreSQLs. A reconcile makes the children of one PostgreSQL match its spec, takes at most one step towards it
// that interrupts an instance, and reports what it observes.
type Reconciler struct {
	reconciler.Tools
	agents  *agents
	history *history
	backoff *applyBackoff
	nodes   *nodes
	apis    *optionalapi.APIs

	deletions *deletions

	agentImage string
	namespace  string // the operator's
}

// Setup registers the controller with the manager.
func Setup(mgr ctrl.Manager, opts Options) error {
	tools, err := reconciler.New(mgr, monitoring.KindPostgreSQL, &databasev1alpha1.PostgreSQLList{}, opts.Options, indexes...)
	if err != nil {
		return err
	}
	r := &Reconciler{
		Tools:   tools,
		agents:  newAgents(tools.Clock),
		history: newHistory(tools.Clock),
		backoff: newApplyBackoff(tools.Clock),
		nodes:   newNodes(tools.Live, tools.Clock),

		deletions: newDeletions(),

		agentImage: opts.AgentImage,
		namespace:  opts.OperatorNamespace,
	}
	kind := &reconciler.Reconciler[databasev1alpha1.PostgreSQL, *databasev1alpha1.PostgreSQL]{
		Tools: tools, ReconcileObject: r.reconcile, OnDeleted: r.onDeleted,
		Progress: progress, StatusDelay: r.statusDelay, ReadyNote: readyNote, Created: created,
	}
	r.apis = optionalapi.New(mgr, &databasev1alpha1.PostgreSQL{}, optionalAPIs...)
	c, err := kind.Setup(mgr, r.watch)
	if err != nil {
		return err
	}
	r.apis.WatchWith(c)
	return nil
}

func (r *Reconciler) reconcile(ctx context.Context, pg *databasev1alpha1.PostgreSQL) (reconcile.Result, error) {
	if pg.Spec.Paused {
		return r.reconcilePaused(ctx, pg)
	}
	in, err := r.resolve(ctx, pg)
	_, conflict := errors.AsType[*apply.ConflictError](err)
	if _, unreadable := errors.AsType[*caError](err); conflict || unreadable {
		if err := r.reportBlocked(ctx, pg, err); err != nil {
			return reconcile.Result{}, err
		}
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if in.cluster.set != nil {
		r.deletions.take(pg)
	}
	seen := &observed{at: r.Clock.Now(), cluster: in.cluster, growth: in.growth, monitoringMissing: in.monitoringMissing}
	seen.parameters, seen.secretMissing, seen.rotationBlocked = in.parameters, in.secretMissing, in.rotationBlocked
	seen.foreignSecrets = in.foreignSecrets
	seen.login, seen.sslMode = in.credentials[0].login(in.credentials[0].role), in.credentials[0].sslMode
	seen.issued, seen.serving = in.issued, in.certificates.serving
	count, next := next(pg, &in.cluster)
	seen.step = next
	seen.applyErr = r.apply(ctx, pg, in, count)
	if apply.Transient(seen.applyErr) {
		return reconcile.Result{}, seen.applyErr
	}
	if err := r.execute(ctx, pg, in, seen); err != nil {
		return reconcile.Result{}, err
	}
	pg.Status.AgentImage = in.agentImage
	r.Metrics.AgentOutdated(client.ObjectKeyFromObject(pg), in.cluster.outdatedAgents(r.agentImage))
	setStatus(pg, seen)
	return r.requeueAfter(pg, in, seen)
}

// reportBlocked reports why nothing is applied, and whether the instances serve clients meanwhile.
func (r *Reconciler) reportBlocked(ctx context.Context, pg *databasev1alpha1.PostgreSQL, why error) error {
	set, pods, claims, err := r.workload(ctx, pg)
	if err != nil {
		return err
	}
	setBlocked(pg, &observed{at: r.Clock.Now(), applyErr: why, cluster: assemble(pg, set, pods, claims, nil, podVersion{})})
	return nil
}

// requeueAfter says when to look again. What is watched needs no time; agents are asked from time to time.
func (r *Reconciler) requeueAfter(pg *databasev1alpha1.PostgreSQL, in *inputs, seen *observed) (reconcile.Result, error) {
	if seen.applyErr != nil {
		return reconcile.Result{}, seen.applyErr
	}
	wait := idlePoll(pg)
	switch {
	case in.rotating && seen.rejected == "" && seen.cluster.primary() != nil:
		r.agents.forget(client.ObjectKeyFromObject(pg)) // ask again how far the standbys have replayed
		wait = pollActive
	case isHibernated(pg, &seen.cluster) && !in.issued.isIssuing():
		wait = in.certificates.renewAt.Sub(r.Clock.Now())
	case !settled(pg, &seen.cluster):
		wait = pollActive
	}
	return reconcile.Result{RequeueAfter: reconciler.Sooner(min(max(wait, pollActive), 24*time.Hour), in.apiRetry)}, nil
}

func (r *Reconciler) onDeleted(ctx context.Context, key types.NamespacedName) (done bool, err error) {
	if err := r.dropVolumes(ctx, key); err != nil {
		return false, err
	}
	r.deletions.forget(key)
	r.agents.forget(key)
	r.history.forget(key)
	r.backoff.forget(key)
	return true, nil
}
