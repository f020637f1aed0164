package apply

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fettle-dev/fettle/internal/requeue"
)

// A write that conflicts with another client's write changes nothing. The reconcile is repeated, because the watch may not report the other
// write.
func TestConflictingWrites_areRepeated(t *testing.T) {
	f := newFixture(t)
	repeated := func(what string, do func(context.Context) error) bool {
		t.Helper()
		result, err := requeue.WithBackoff(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			return reconcile.Result{}, do(ctx)
		})).Reconcile(t.Context(), reconcile.Request{})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return result.RequeueAfter > 0
	}
	apply := func(ctx context.Context) error { return f.Apply(ctx, f.owner, config(f.name, "2")) }
	prune := func(ctx context.Context) error { return f.Prune(ctx, f.owner, reference(f.name)) }
	f.apply(config(f.name, "1"))
	goOn := f.freezeCache()
	uncached(f, &corev1.ConfigMap{})
	for what, do := range map[string]func(context.Context) error{"apply": apply, "prune": prune} {
		if !repeated(what, do) {
			t.Errorf("%s to a deleted object: no requeue", what)
		}
	}
	goOn()
	f.eventually("the cache shows the deletion", func() bool {
		return apierrors.IsNotFound(f.cache.Get(t.Context(), client.ObjectKey{Namespace: f.name, Name: "web"}, &corev1.ConfigMap{}))
	})
	for _, do := range []func(context.Context) error{apply, prune} {
		if repeated("successful writes", do) {
			t.Error("a requeue after successful writes")
		}
		f.settle(config(f.name, "2"))
	}
}
