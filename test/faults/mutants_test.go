package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/rand"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// mutants are variants of the demo controller with one bug each, of kinds that were found in published operators.
var mutants = map[string]func(*demo){
	"writes the status only in the reconcile that created a child": func(d *demo) {
		ensure, report := d.ensure, d.report
		var created bool
		d.ensure = func(ctx context.Context, d *demo, parent *unstructured.Unstructured, want *corev1.ConfigMap) error {
			err := d.Get(ctx, client.ObjectKeyFromObject(want), &corev1.ConfigMap{})
			created = created || apierrors.IsNotFound(err)
			return ensure(ctx, d, parent, want)
		}
		d.report = func(ctx context.Context, d *demo, parent *unstructured.Unstructured) error {
			if !created {
				return nil
			}
			created = false
			return report(ctx, d, parent)
		}
	},
	"lets the server choose names": func(d *demo) {
		d.ensure = func(ctx context.Context, d *demo, _ *unstructured.Unstructured, want *corev1.ConfigMap) error {
			children := &corev1.ConfigMapList{}
			if err := d.List(ctx, children, client.InNamespace(want.Namespace)); err != nil {
				return err
			}
			if slices.ContainsFunc(children.Items, func(c corev1.ConfigMap) bool { return c.Data["item"] == want.Data["item"] }) {
				return nil
			}
			want.GenerateName, want.Name = want.Name+"-", ""
			return d.Create(ctx, want)
		}
		d.prune = func(context.Context, *demo, *unstructured.Unstructured, []string) error { return nil }
	},
	"deletes conflicting objects by name": func(d *demo) {
		d.ensure = func(ctx context.Context, d *demo, parent *unstructured.Unstructured, want *corev1.ConfigMap) error {
			err := demoEnsure(ctx, d, parent, want.DeepCopy())
			if !apierrors.IsAlreadyExists(err) {
				return err
			}
			if err := d.Delete(ctx, &corev1.ConfigMap{ObjectMeta: *want.ObjectMeta.DeepCopy()}); client.IgnoreNotFound(err) != nil {
				return err
			}
			return d.Create(ctx, want)
		}
	},
	"trusts its own status about existing children": func(d *demo) {
		d.ensure = func(ctx context.Context, d *demo, parent *unstructured.Unstructured, want *corev1.ConfigMap) error {
			observed, _, _ := unstructured.NestedInt64(parent.Object, "status", "observedGeneration")
			if observed == parent.GetGeneration() {
				return nil
			}
			return demoEnsure(ctx, d, parent, want)
		}
	},
	"records the step as done before it executes the step": func(d *demo) {
		d.reconcile = func(ctx context.Context, d *demo, parent *unstructured.Unstructured) (ctrl.Result, error) {
			observed, _, _ := unstructured.NestedInt64(parent.Object, "status", "observedGeneration")
			if observed == parent.GetGeneration() {
				return ctrl.Result{}, nil
			}
			if err := d.report(ctx, d, parent); err != nil {
				return ctrl.Result{}, err
			}
			for _, item := range itemsOf(parent) {
				if err := d.ensure(ctx, d, parent, d.desired(d, parent, item)); err != nil {
					return ctrl.Result{}, err
				}
			}
			return ctrl.Result{}, nil
		}
	},
	"forgets the owner reference": func(d *demo) {
		d.desired = func(d *demo, parent *unstructured.Unstructured, item string) *corev1.ConfigMap {
			child := demoDesired(d, parent, item)
			child.OwnerReferences = nil
			return child
		}
	},
	"only checks whether a child exists": func(d *demo) {
		d.ensure = func(ctx context.Context, d *demo, parent *unstructured.Unstructured, want *corev1.ConfigMap) error {
			if d.Get(ctx, client.ObjectKeyFromObject(want), &corev1.ConfigMap{}) == nil {
				return nil
			}
			return demoEnsure(ctx, d, parent, want)
		}
	},
	"does not watch its children": func(d *demo) { d.blind = true },
	"counts its reconciles": func(d *demo) {
		d.desired = func(d *demo, parent *unstructured.Unstructured, item string) *corev1.ConfigMap {
			child := demoDesired(d, parent, item)
			child.Data["passes"] = fmt.Sprint(reconciles.Add(1))
			return child
		}
	},
	"writes the time of each reconcile into the status": func(d *demo) {
		d.report = func(ctx context.Context, d *demo, parent *unstructured.Unstructured) error {
			return writeDemoStatus(ctx, d, parent, map[string]any{
				"observedGeneration": parent.GetGeneration(), "checked": time.Now().Format(time.RFC3339Nano),
				"conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
			})
		}
	},
	"updates without a difference": func(d *demo) {
		d.report = func(ctx context.Context, d *demo, parent *unstructured.Unstructured) error {
			if err := demoReport(ctx, d, parent); err != nil {
				return err
			}
			ready, observed := readyOf(parent)
			if ready != "True" || observed != parent.GetGeneration() {
				return nil
			}
			return d.Status().Update(ctx, parent.DeepCopy())
		}
	},
	"generates a new password in each process": func(d *demo) {
		password := rand.String(12)
		d.desired = func(d *demo, parent *unstructured.Unstructured, item string) *corev1.ConfigMap {
			child := demoDesired(d, parent, item)
			child.Data["password"] = password
			return child
		}
	},
	"swallows errors of children": func(d *demo) {
		d.ensure = func(ctx context.Context, d *demo, parent *unstructured.Unstructured, want *corev1.ConfigMap) error {
			_ = demoEnsure(ctx, d, parent, want)
			return nil
		}
	},
	"ignores an error of the status write": func(d *demo) {
		d.report = func(ctx context.Context, d *demo, parent *unstructured.Unstructured) error {
			_ = demoReport(ctx, d, parent)
			return nil
		}
	},
	"waits for an event after a conflict": func(d *demo) {
		d.reconcile = func(ctx context.Context, d *demo, parent *unstructured.Unstructured) (ctrl.Result, error) {
			result, err := demoReconcile(ctx, d, parent)
			if apierrors.IsConflict(err) {
				return ctrl.Result{}, nil
			}
			return result, err
		}
	},
	"waits for an event after a NotFound error": func(d *demo) {
		d.reconcile = func(ctx context.Context, d *demo, parent *unstructured.Unstructured) (ctrl.Result, error) {
			result, err := demoReconcile(ctx, d, parent)
			if apierrors.IsNotFound(err) {
				return ctrl.Result{}, nil
			}
			return result, err
		}
	},
	"keeps the objects to remove in memory": func(d *demo) {
		d.prune = func(ctx context.Context, d *demo, parent *unstructured.Unstructured, wanted []string) error {
			for name := range strings.FieldsSeq(d.pending[parent.GetName()]) {
				child := &corev1.ConfigMap{}
				child.Namespace, child.Name = parent.GetNamespace(), name
				if !slices.Contains(wanted, name) && client.IgnoreNotFound(d.Delete(ctx, child)) != nil {
					return fmt.Errorf("delete %s", name)
				}
			}
			d.pending[parent.GetName()] = strings.Join(wanted, " ")
			return nil
		}
	},
	"panics when a create fails": func(d *demo) {
		d.ensure = func(ctx context.Context, d *demo, parent *unstructured.Unstructured, want *corev1.ConfigMap) error {
			err := demoEnsure(ctx, d, parent, want)
			if status, ok := err.(apierrors.APIStatus); ok && status.Status().Code != 409 {
				panic(err)
			}
			return err
		}
	},
	"waits a minute after an error": func(d *demo) {
		d.reconcile = func(ctx context.Context, d *demo, parent *unstructured.Unstructured) (ctrl.Result, error) {
			if _, err := demoReconcile(ctx, d, parent); err != nil {
				return ctrl.Result{RequeueAfter: time.Minute}, nil
			}
			return ctrl.Result{}, nil
		}
	},
	"writes to another namespace": func(d *demo) {
		d.ensure = func(ctx context.Context, d *demo, parent *unstructured.Unstructured, want *corev1.ConfigMap) error {
			other := want.DeepCopy()
			other.Namespace = "default"
			if err := d.Create(ctx, other); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
			return demoEnsure(ctx, d, parent, want)
		}
	},
	"lacks permissions for its writes": func(d *demo) {
		d.ensure = func(ctx context.Context, d *demo, parent *unstructured.Unstructured, want *corev1.ConfigMap) error {
			secret := &corev1.Secret{}
			secret.Namespace, secret.Name = want.Namespace, want.Name
			_ = d.Create(ctx, secret)
			return demoEnsure(ctx, d, parent, want)
		}
	},
}

// reconciles outlives the controller, so the mutant differs from run to run.
var reconciles atomic.Int64

// deletionMutant is a variant of the demo controller with a bug that one kind of deletion detects.
type deletionMutant struct {
	kind   Kind
	mutate func(*demo)
}

// deletionMutants have finalizers that stay.
var deletionMutants = map[string]deletionMutant{
	"only removes its finalizer from an object that became ready": {OwnerDeleted, func(d *demo) {
		withFinalizer(d, func(_ context.Context, _ *demo, parent *unstructured.Unstructured) (bool, error) {
			ready, _ := readyOf(parent)
			return ready == "True", nil
		})
	}},
	"creates an object before it removes its finalizer": {NamespaceDeleted, func(d *demo) {
		withFinalizer(d, func(ctx context.Context, d *demo, parent *unstructured.Unstructured) (bool, error) {
			err := d.Create(ctx, d.desired(d, parent, "farewell"))
			return err == nil || apierrors.IsAlreadyExists(err), client.IgnoreAlreadyExists(err)
		})
	}},
}

// withFinalizer adds a finalizer to the demo's objects, which stays until done is true.
func withFinalizer(d *demo, done func(context.Context, *demo, *unstructured.Unstructured) (bool, error)) {
	const finalizer = "test.fettle.dev/demo"
	d.reconcile = func(ctx context.Context, d *demo, parent *unstructured.Unstructured) (ctrl.Result, error) {
		if parent.GetDeletionTimestamp() == nil {
			if controllerutil.AddFinalizer(parent, finalizer) {
				return ctrl.Result{}, d.Update(ctx, parent)
			}
			return demoReconcile(ctx, d, parent)
		}
		if remove, err := done(ctx, d, parent); err != nil || !remove || !controllerutil.RemoveFinalizer(parent, finalizer) {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, d.Update(ctx, parent)
	}
}

// catches requires that a mutant violates an oracle: the harness detects its bug.
func (a *totals) catches(t *testing.T, mutate func(*demo)) {
	t.Helper()
	e := a.executeMutant(t, mutate, Options{ConvergeTimeout: 4 * time.Second})
	a.requireCaught(t, e.Report)
}

// catchesDeletion requires the same of the mutant's kind of deletions.
func (a *totals) catchesDeletion(t *testing.T, m deletionMutant) {
	t.Helper()
	e := a.executeMutant(t, m.mutate, Options{Kind: m.kind, ConvergeTimeout: 10 * time.Second})
	if len(e.Violations) > 0 {
		t.Fatalf("violates an oracle without a deletion: %v", e.Violations)
	}
	report, err := e.executeDeletions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a.requireCaught(t, report)
}

func (a *totals) executeMutant(t *testing.T, mutate func(*demo), options Options) *Execution {
	t.Helper()
	if limited() {
		t.Skip("a single plan or kind is requested")
	}
	scenario := demoScenario("mutant", func() *demo {
		d := newDemo()
		mutate(d)
		return d
	})
	scenario.Identity = a.identity
	options.All, options.FailFast, options.Workers, options.LongIdle = true, true, 4, time.Second
	e, err := a.stage.Execute(t.Context(), scenario, options)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (a *totals) requireCaught(t *testing.T, report Report) {
	t.Helper()
	if len(report.Violations) == 0 {
		t.Fatalf("not caught by %d plans", report.Plans)
	}
	first := report.Violations[0]
	t.Logf("caught by %s: %s", first.Plan, firstLine(first.Broken[0]))
	a.mu.Lock()
	defer a.mu.Unlock()
	a.caught++
}
