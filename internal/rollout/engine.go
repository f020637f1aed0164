package rollout

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Options of an Engine.
type Options struct {
	// Namespaces that are watched; none means all.
	Namespaces []string
}

// Engine finds and restarts dependants. One serves all controllers of a manager. It is safe for concurrent use, one call at
// a time for each owner.
type Engine struct{}

// New adds the engine's cache of workloads to mgr.
func New(mgr manager.Manager, opts Options) (*Engine, error) { return nil, errors.ErrUnsupported }

// Watch wakes the controller of b for every change of a workload that may concern its objects: interested says for which.
// It is asked with the workload as it was and as it is, and must only read caches.
func (e *Engine) Watch(b *builder.Builder, interested func(context.Context, *Workload) []reconcile.Request) *builder.Builder {
	return b
}

// Adopt notes on all dependants that have no note yet that their pods run before: what is published, until the caller
// changes it right after. It returns false when it could not find out about one; the caller then publishes nothing and
// returns, since the watch will wake it.
func (e *Engine) Adopt(ctx context.Context, owner Owner, policy Policy, before []Object) (bool, error) {
	return false, errors.ErrUnsupported
}

// Roll notes what dependants run where that is not written down, restarts those that policy allows now, and reports.
func (e *Engine) Roll(ctx context.Context, owner Owner, policy Policy, published []Object) (Report, error) {
	return Report{}, errors.ErrUnsupported
}

// Release removes the owner's notes from all workloads, and leaves their pod templates alone. It does nothing in a namespace
// that is being deleted. It returns false when it must be called again, since the cache is behind.
func (e *Engine) Release(ctx context.Context, owner Owner) (bool, error) {
	return false, errors.ErrUnsupported
}

// Unused returns those of the named versions of an object that no workload, no ReplicaSet that has or should have pods, and no
// ControllerRevision refers to. It reads the API server when the cache does not know of a user.
func (e *Engine) Unused(ctx context.Context, namespace, kind string, names []string) ([]string, error) {
	return nil, errors.ErrUnsupported
}
