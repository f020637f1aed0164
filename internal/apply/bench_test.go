package apply

import (
	"testing"

	k8sappsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

// BenchmarkUnchanged measures a reconcile of a Deployment that is up to date.
func BenchmarkUnchanged(b *testing.B) {
	owner := testOwner()
	gvk := k8sappsv1.SchemeGroupVersion.WithKind("Deployment")
	live := liveCopy(b, mustRender(b, webDeployment(testNamespace), owner))
	t := mustType(b, gvk)
	config := webDeployment(testNamespace)
	b.ReportAllocs()
	for b.Loop() {
		d, err := render(config, owner, clientscheme.Scheme)
		if err != nil {
			b.Fatal(err)
		}
		paths, err := compare(d, live, t)
		if err != nil || len(paths) > 0 {
			b.Fatal(paths, err)
		}
	}
}

// BenchmarkRender measures the part of it without the live object.
func BenchmarkRender(b *testing.B) {
	owner := testOwner()
	config := webDeployment(testNamespace)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := render(config, owner, clientscheme.Scheme); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCompare measures the comparison with the live object.
func BenchmarkCompare(b *testing.B) {
	d := mustRender(b, webDeployment(testNamespace), testOwner())
	live := liveCopy(b, d)
	t := mustType(b, d.gvk)
	b.ReportAllocs()
	for b.Loop() {
		if paths, err := compare(d, live, t); err != nil || len(paths) > 0 {
			b.Fatal(paths, err)
		}
	}
}

func mustType(tb testing.TB, gvk schema.GroupVersionKind) objectType {
	tb.Helper()
	a := &Applier{scheme: clientscheme.Scheme, types: map[schema.GroupVersionKind]objectType{}}
	t, err := a.typeOf(gvk)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// BenchmarkSameStatus measures a reconcile of a status that does not change.
func BenchmarkSameStatus(b *testing.B) {
	d := mustRender(b, webDeployment(testNamespace), testOwner())
	obj := liveCopy(b, d).(*k8sappsv1.Deployment)
	for _, t := range []k8sappsv1.DeploymentConditionType{"Available", "Progressing", "ReplicaFailure", "Ready"} {
		obj.Status.Conditions = append(obj.Status.Conditions, k8sappsv1.DeploymentCondition{
			Type: t, Status: "True", Reason: "Because", Message: "a message of some length", LastTransitionTime: metav1.Now(),
		})
	}
	before := obj.DeepCopy()
	b.ReportAllocs()
	for b.Loop() {
		if !SameStatus(obj, before) {
			b.Fatal("differs")
		}
	}
}
