package faults

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

var (
	demoKind   = schema.GroupVersionKind{Group: "test.fettle.dev", Version: "v1", Kind: "Demo"}
	demos      = demoKind.GroupVersion().WithResource("demos")
	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
)

var demoRules = []rbacv1.PolicyRule{
	{APIGroups: []string{demoKind.Group}, Resources: []string{"demos"}, Verbs: []string{"get", "list", "watch", "update"}}, // for finalizers
	{APIGroups: []string{demoKind.Group}, Resources: []string{"demos/status"}, Verbs: []string{"update"}},
	{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch", "create", "update", "delete"}},
}

// demo is a small controller without a known bug: a Demo has a ConfigMap for each of its items, and a status. The mutants replace its parts
// to show that the harness detects them.
type demo struct {
	client.Client
	desired   func(*demo, *unstructured.Unstructured, string) *corev1.ConfigMap
	ensure    func(context.Context, *demo, *unstructured.Unstructured, *corev1.ConfigMap) error
	prune     func(context.Context, *demo, *unstructured.Unstructured, []string) error
	report    func(context.Context, *demo, *unstructured.Unstructured) error
	reconcile func(context.Context, *demo, *unstructured.Unstructured) (ctrl.Result, error)
	blind     bool // does not watch its children
	pending   map[string]string
}

func newDemo() *demo {
	return &demo{
		desired: demoDesired, ensure: demoEnsure, prune: demoPrune, report: demoReport, reconcile: demoReconcile,
		pending: map[string]string{},
	}
}

func newDemoObject() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(demoKind)
	return object
}

func (d *demo) setup(mgr manager.Manager) error {
	d.Client = mgr.GetClient()
	builder := ctrl.NewControllerManagedBy(mgr).Named("demo").For(newDemoObject())
	if !d.blind {
		builder = builder.Owns(&corev1.ConfigMap{})
	}
	return builder.Complete(d)
}

func (d *demo) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	parent := newDemoObject()
	if err := d.Get(ctx, request.NamespacedName, parent); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return d.reconcile(ctx, d, parent)
}

func demoReconcile(ctx context.Context, d *demo, parent *unstructured.Unstructured) (ctrl.Result, error) {
	var wanted []string
	for _, item := range itemsOf(parent) {
		child := d.desired(d, parent, item)
		if err := d.ensure(ctx, d, parent, child); err != nil {
			return ctrl.Result{}, err
		}
		wanted = append(wanted, child.Name)
	}
	if err := d.prune(ctx, d, parent, wanted); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, d.report(ctx, d, parent)
}

func itemsOf(parent *unstructured.Unstructured) []string {
	items, _, _ := unstructured.NestedStringSlice(parent.Object, "spec", "items")
	return items
}

func demoDesired(_ *demo, parent *unstructured.Unstructured, item string) *corev1.ConfigMap {
	value, _, _ := unstructured.NestedString(parent.Object, "spec", "value")
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: parent.GetNamespace(), Name: parent.GetName() + "-" + item, Labels: map[string]string{"demo": parent.GetName()},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(parent, demoKind)},
		},
		Data: map[string]string{"item": item, "value": value},
	}
}

func demoEnsure(ctx context.Context, d *demo, _ *unstructured.Unstructured, want *corev1.ConfigMap) error {
	have := &corev1.ConfigMap{}
	if err := d.Get(ctx, client.ObjectKeyFromObject(want), have); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		return d.Create(ctx, want)
	}
	next := have.DeepCopy()
	next.Data, next.OwnerReferences = want.Data, want.OwnerReferences
	if next.Labels == nil {
		next.Labels = map[string]string{}
	}
	maps.Copy(next.Labels, want.Labels)
	if apiequality.Semantic.DeepEqual(have, next) {
		return nil
	}
	return d.Update(ctx, next)
}

func demoPrune(ctx context.Context, d *demo, parent *unstructured.Unstructured, wanted []string) error {
	children := &corev1.ConfigMapList{}
	if err := d.List(ctx, children, client.InNamespace(parent.GetNamespace()), client.MatchingLabels{"demo": parent.GetName()}); err != nil {
		return err
	}
	for i := range children.Items {
		child := &children.Items[i]
		if slices.Contains(wanted, child.Name) {
			continue
		}
		err := d.Delete(ctx, child, client.Preconditions{UID: &child.UID, ResourceVersion: &child.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

func demoReport(ctx context.Context, d *demo, parent *unstructured.Unstructured) error {
	return writeDemoStatus(ctx, d, parent, map[string]any{
		"observedGeneration": parent.GetGeneration(),
		"conditions":         []any{map[string]any{"type": "Ready", "status": "True", "reason": "Done"}},
	})
}

func writeDemoStatus(ctx context.Context, d *demo, parent *unstructured.Unstructured, status map[string]any) error {
	next := parent.DeepCopy()
	next.Object["status"] = status
	if apiequality.Semantic.DeepEqual(parent, next) {
		return nil
	}
	return d.Status().Update(ctx, next)
}

// demoScenario creates a Demo, and then changes it: one child is created, one changed and one removed.
func demoScenario(name string, build func() *demo) Scenario {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		panic(err)
	}
	set := func(object *unstructured.Unstructured, value string, items ...string) error {
		return unstructured.SetNestedMap(object.Object, map[string]any{"value": value, "items": anys(items)}, "spec")
	}
	return Scenario{
		Name: name, Scheme: scheme, Primary: demos, Children: []schema.GroupVersionResource{configMaps},
		Setup:    func(mgr manager.Manager, _ string) error { return build().setup(mgr) },
		Deletion: &Deletion{Object: Key{demos, "shop"}},
		Steps: []Step{{
			Name: "create", Converged: Ready(demos, "shop"),
			Do: func(ctx context.Context, w *Client) error {
				object := newDemoObject()
				object.SetName("shop")
				if err := set(object, "one", "a", "b"); err != nil {
					return err
				}
				return w.Create(ctx, object)
			},
		}, {
			Name: "change", Converged: Ready(demos, "shop"),
			Do: func(ctx context.Context, w *Client) error {
				object := newDemoObject()
				if err := w.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: "shop"}, object); err != nil {
					return fmt.Errorf("read Demo: %w", err)
				}
				before := object.DeepCopy()
				if err := set(object, "two", "b", "c"); err != nil {
					return err
				}
				return w.Patch(ctx, object, client.MergeFrom(before))
			},
		}},
	}
}

func anys(values []string) []any {
	var all []any
	for _, v := range values {
		all = append(all, v)
	}
	return all
}
