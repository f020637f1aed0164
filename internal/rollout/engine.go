package rollout

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/digest"
	"github.com/fettle-dev/fettle/internal/requeue"
)

// Options of an Engine.
type Options struct {
	// Namespaces to watch; none means all.
	Namespaces []string
	// Keys has the key for digests.
	Keys *digest.Keyring
}

// Engine finds and restarts dependants. All controllers of a manager share one. It is safe for concurrent use, with one call at a time per
// owner.
type Engine struct {
	client    client.Client
	live      client.Reader
	workloads workloads
	// expectations has this process' last write to each workload, recorded the time of each owner's last record.
	expectations *apply.Expectations
	recorded     *lru.Cache
	keys         *digest.Keyring
	inUse        *inUse
	drift        *driftTracker
	clock        clock.PassiveClock
}

// New adds the engine's cache of workloads to mgr.
func New(mgr manager.Manager, opts Options) (*Engine, error) {
	cached, err := newWorkloads(mgr, opts.Namespaces)
	if err != nil {
		return nil, fmt.Errorf("set up rollouts: %w", err)
	}
	c := clock.RealClock{}
	return &Engine{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), workloads: cached,
		expectations: apply.NewExpectations(c), recorded: lru.New(maxRecorded), keys: opts.Keys, inUse: newInUse(c), drift: newDriftTracker(), clock: c,
	}, nil
}

// Watch wakes the controller of b for every change of a workload that may concern its objects. interested returns the requests. It is
// called with the old and with the new workload, and must only read caches.
func (e *Engine) Watch(b *builder.Builder, interested func(context.Context, *Workload) []reconcile.Request) *builder.Builder {
	mapped := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
		w, err := workloadOf(obj)
		if err != nil {
			log.FromContext(ctx).Error(err, "failed to read changed workload")
			return nil
		}
		return interested(ctx, w)
	})
	for _, k := range kinds {
		b = b.WatchesRawSource(source.Kind(e.workloads.Cache, k.object, mapped))
	}
	return b
}

func (e *Engine) newEvaluation(ctx context.Context, owner Owner, policy Policy, published []Object) (*evaluation, error) {
	p := &evaluation{now: e.clock.Now(), owner: owner, policy: policy, published: published}
	if !slices.ContainsFunc(published, func(o Object) bool { return o.Kind == Secret }) {
		return p, nil
	}
	var err error
	p.key, err = e.keys.Key(ctx)
	return p, err
}

// BeginReconcile starts a reconcile of the owner. Call it first, even in reconciles that then do nothing.
func (e *Engine) BeginReconcile(owner Owner) { e.drift.begin(owner) }

// RecordBaseline writes a record to each dependant without one: its pods run the contents in before, which the caller is about to replace.
// It returns false if it could not decide for a dependant. The caller then publishes nothing and returns, because a requeue was requested.
func (e *Engine) RecordBaseline(ctx context.Context, owner Owner, policy Policy, before []Object) (bool, error) {
	if policy.Disabled {
		return true, nil
	}
	found, err := e.workloads.dependants(ctx, owner, policy, before)
	if err != nil {
		return false, err
	}
	p, err := e.newEvaluation(ctx, owner, policy, before)
	if err != nil {
		return false, err
	}
	p.beforeChange, p.lastIntact = true, e.drift.recordDrift(owner, before)
	plan := p.decide(found, e.lastWrites(owner))
	for _, a := range plan.records {
		w := plan.dependants[a.at].Workload
		switch err := e.writeRecord(ctx, owner, w, a.record); {
		case err == nil, apply.Rejected(err): // no write to this workload will ever succeed
		case stale(err):
			requeue.Request(ctx)
			return false, nil
		default:
			return false, fmt.Errorf("record running contents: %w", err)
		}
	}
	return true, nil
}

// Roll records the running contents of dependants without a record, restarts the dependants that policy allows now, and reports. The report
// is valid even with an error.
func (e *Engine) Roll(ctx context.Context, owner Owner, policy Policy, published []Object) (Report, error) {
	found, err := e.workloads.dependants(ctx, owner, policy, published)
	if err != nil {
		return Report{}, err
	}
	p, err := e.newEvaluation(ctx, owner, policy, published)
	if err != nil {
		return Report{}, err
	}
	plan := p.decide(found, e.lastWrites(owner))
	if !owner.plain() {
		e.drift.recordIntact(owner, published, plan.dependants)
	}
	event := p.eventText(&plan)
	rejected := map[int]string{}
	err = e.execute(ctx, owner, &plan, rejected)
	report := p.report(&plan, rejected)
	if report.Restarted = len(plan.restarts); report.Restarted > 0 {
		report.Event = event
	}
	return report, err
}

// execute carries out the plan. It removes failed writes from the plan and collects rejected writes.
func (e *Engine) execute(ctx context.Context, owner Owner, plan *plan, rejected map[int]string) error {
	for _, a := range plan.records {
		switch err := e.writeRecord(ctx, owner, plan.dependants[a.at].Workload, a.record); {
		case err == nil:
		case stale(err):
			requeue.Request(ctx)
		case apply.Rejected(err):
			rejected[a.at] = err.Error()
			requeue.Request(ctx)
		default:
			plan.restarts = nil
			return fmt.Errorf("record running contents: %w", err)
		}
	}
	for i, a := range plan.restarts {
		err := e.restart(ctx, owner, plan.dependants[a.at].Workload, a)
		if err == nil {
			continue
		}
		plan.restarts = slices.Clip(plan.restarts[:i]) // in order: none after this one
		switch {
		case stale(err):
			requeue.Request(ctx)
			return nil
		case apply.Rejected(err):
			rejected[a.at] = err.Error()
			requeue.Request(ctx)
			return nil
		default:
			return fmt.Errorf("restart: %w", err)
		}
	}
	return nil
}

// AllRunning reports whether the records of all dependants name the Version of object, which Fettle does not publish. If so, there is
// nothing to roll out and the contents need not be read. recorded is true if any dependant has a record, of whatever version.
func (e *Engine) AllRunning(ctx context.Context, owner Owner, policy Policy, object Object) (running, recorded bool, err error) {
	found, err := e.workloads.dependants(ctx, owner, policy, []Object{object})
	if err != nil {
		return false, false, err
	}
	running, recorded = owner.running(found, object)
	return running, recorded, nil
}

func (o Owner) running(workloads []*Workload, object Object) (running, recorded bool) {
	running = true
	for _, w := range workloads {
		hash, n := o.runs(w)
		recorded = recorded || n != nil
		same := n != nil && n.Version == object.Version && isHash(hash) && hash[:useDigits] == useOf(o.usesOf(w, []Object{object}))
		running = running && (same || w.deleting)
	}
	return running, recorded
}

// Images returns the container images of a dependant with references, from the cache; none if it does not exist.
func (e *Engine) Images(ctx context.Context, namespace string, d Dependent) ([]string, error) {
	w, err := e.workloads.get(ctx, workloadID(d.Kind, namespace, d.Name))
	if err != nil || w == nil {
		return nil, err
	}
	return w.Images, nil
}

// Release removes the owner's records from all workloads and keeps their pod templates. It does nothing in a namespace that is being
// deleted. It returns false if it must be called again, because the cache is behind or a workload differs from the cache. It then requests
// a requeue.
func (e *Engine) Release(ctx context.Context, owner Owner) (bool, error) {
	e.drift.forget(owner)
	gone, err := e.terminating(ctx, owner.Namespace)
	if gone || err != nil {
		return gone, err
	}
	found := map[apply.ObjectID]*Workload{}
	if err := e.workloads.list(ctx, owner.Namespace, client.MatchingFields{indexUsed: owner.annotation()}, found); err != nil {
		return false, err
	}
	done, err := e.caughtUp(ctx, owner)
	if err != nil {
		return false, err
	}
	for _, w := range slices.SortedFunc(maps.Values(found), compareWorkloads) {
		err := e.merge(ctx, owner, w, map[string]any{"metadata": map[string]any{
			"uid": w.UID, "annotations": map[string]any{owner.annotation(): nil},
		}})
		switch {
		case err == nil, apply.Rejected(err):
		case stale(err):
			done = false
		default:
			return false, fmt.Errorf("remove record: %w", err)
		}
	}
	if !done {
		requeue.Request(ctx)
	}
	return done, nil
}

// caughtUp reports whether the cache shows all recent writes.
func (e *Engine) caughtUp(ctx context.Context, owner Owner) (bool, error) {
	for _, id := range e.expectations.Recent(types.NamespacedName{Namespace: owner.Namespace}) {
		w, err := e.workloads.get(ctx, id)
		if err != nil {
			return false, err
		}
		if w != nil && e.cacheBehind(w) {
			return false, nil
		}
	}
	return true, nil
}

// terminating reports whether a namespace is being deleted or does not exist.
func (e *Engine) terminating(ctx context.Context, name string) (bool, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := e.client.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("get namespace %q: %w", name, err)
	}
	return namespace.DeletionTimestamp != nil, nil
}
