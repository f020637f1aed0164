package cmd

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func fullMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: types.UID("u"), ResourceVersion: "7", Generation: 3,
		CreationTimestamp: metav1.Unix(1, 0),
		Labels:            map[string]string{"app": "web"},
		Annotations:       map[string]string{"fettle.dev/revision": "r", "example.com/large": "x"},
		OwnerReferences:   []metav1.OwnerReference{{Name: "set"}},
		Finalizers:        []string{"example.com/hold"},
		ManagedFields:     []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
	}
}

// twice applies a transform two times, as the cache may do.
func twice(t *testing.T, transform toolscache.TransformFunc, in any) any {
	t.Helper()
	for range 2 {
		out, err := transform(in)
		if err != nil {
			t.Fatal(err)
		}
		in = out
	}
	return in
}

func TestTransforms(t *testing.T) {
	bare := metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: types.UID("u"), ResourceVersion: "7", Generation: 3, CreationTimestamp: metav1.Unix(1, 0),
	}
	labelled := bare
	labelled.Labels = map[string]string{"app": "web"}
	ofPod := labelled
	ofPod.Annotations = map[string]string{"fettle.dev/revision": "r"}
	ofPod.OwnerReferences = []metav1.OwnerReference{{Name: "set"}}
	status := corev1.PodStatus{
		Phase: corev1.PodPending, Reason: "Evicted", Message: "why",
		Conditions:            []corev1.PodCondition{{Type: corev1.PodReady}},
		ContainerStatuses:     []corev1.ContainerStatus{{Name: "web"}},
		InitContainerStatuses: []corev1.ContainerStatus{{Name: "init"}},
	}
	fullStatus := status
	fullStatus.PodIP, fullStatus.HostIP, fullStatus.QOSClass = "10.0.0.1", "10.0.0.2", corev1.PodQOSBurstable
	large := fullMeta()
	large.Annotations[corev1.LastAppliedConfigAnnotation] = "{}"
	kept := fullMeta()
	kept.ManagedFields = nil
	missed := toolscache.DeletedFinalStateUnknown{Key: "shop/web"}
	for _, c := range []struct {
		name      string
		transform toolscache.TransformFunc
		in, want  any
	}{
		{"identity", trimIdentity, &metav1.PartialObjectMetadata{ObjectMeta: fullMeta()}, &metav1.PartialObjectMetadata{ObjectMeta: bare}},
		{"labels", trimToLabels, &metav1.PartialObjectMetadata{ObjectMeta: fullMeta()}, &metav1.PartialObjectMetadata{ObjectMeta: labelled}},
		{
			"pod", trimPod,
			&corev1.Pod{ObjectMeta: fullMeta(), Spec: corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "web"}}}, Status: fullStatus},
			&corev1.Pod{ObjectMeta: ofPod, Status: status},
		},
		{"bookkeeping", trimBookkeeping, &k8sappsv1.Deployment{ObjectMeta: large}, &k8sappsv1.Deployment{ObjectMeta: kept}},
		{"missed deletion, bookkeeping", trimBookkeeping, missed, missed},
		{"missed deletion, identity", trimIdentity, missed, missed},
		{"missed deletion, labels", trimToLabels, missed, missed},
		{"missed deletion, pod", trimPod, missed, missed},
	} {
		if diff := cmp.Diff(c.want, twice(t, c.transform, c.in)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestContentsOfSecretsNeverEnterTheCache(t *testing.T) {
	for _, object := range []any{&corev1.Secret{}, &corev1.ConfigMap{}} {
		if out, err := trimIdentity(object); err == nil {
			t.Errorf("%T was accepted as %v", object, out)
		}
	}
}

func newManager(t *testing.T) ctrl.Manager {
	t.Helper()
	options, err := (&managerOptions{metricsAddress: off, probeAddress: off, workers: 1}).managerOptions()
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(env.Operator, options)
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

// TestCache runs a manager's cache beside objects that are ours and that are not.
func TestCache(t *testing.T) {
	c, namespace := newAdmin(t), env.Namespace(t)
	ours, foreign := newDeployment(namespace, "ours"), newDeployment(namespace, "foreign")
	ours.Labels = ownLabels
	secret := emptySecret(namespace, "secret")
	secret.Data, secret.Labels = map[string][]byte{"password": []byte("hunter2")}, map[string]string{"app": "web"}
	createAll(t, c, ours, foreign, secret)
	mgr := newManager(t)
	t.Run("contents are read from the API server", func(t *testing.T) { // no cache runs yet
		read := emptySecret(namespace, "secret")
		err := mgr.GetClient().Get(t.Context(), client.ObjectKeyFromObject(secret), read)
		if err != nil || string(read.Data["password"]) != "hunter2" {
			t.Errorf("read a Secret by name: %q, %v", read.Data, err)
		}
	})
	go func() { _ = mgr.Start(t.Context()) }()
	if !mgr.GetCache().WaitForCacheSync(t.Context()) {
		t.Fatal("the cache did not start")
	}
	t.Run("children of others are not cached", func(t *testing.T) {
		list := &k8sappsv1.DeploymentList{}
		err := mgr.GetClient().List(t.Context(), list, client.InNamespace(namespace))
		if err != nil || len(list.Items) != 1 || list.Items[0].Name != "ours" || list.Items[0].ManagedFields != nil {
			t.Errorf("cached Deployments: %v, %v; want ours alone, without managedFields", list.Items, err)
		}
	})
	t.Run("a Secret is cached by its identity", func(t *testing.T) {
		got := &metav1.PartialObjectMetadata{}
		got.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		err := mgr.GetClient().Get(t.Context(), client.ObjectKeyFromObject(secret), got)
		want := identity(metav1.ObjectMeta{
			Namespace: namespace, Name: "secret", UID: secret.UID, ResourceVersion: secret.ResourceVersion,
			CreationTimestamp: secret.CreationTimestamp,
		})
		if diff := cmp.Diff(want, got.ObjectMeta); diff != "" || err != nil {
			t.Errorf("cached metadata (-want +got): %v\n%s", err, diff)
		}
	})
}

func newDeployment(namespace, name string) *k8sappsv1.Deployment {
	labels := map[string]string{"app": name}
	return &k8sappsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: k8sappsv1.DeploymentSpec{
			Replicas: new(int32(0)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx:1.25"}}},
			},
		},
	}
}

func TestEveryKindOfTheCacheHasARule(t *testing.T) {
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	for _, namespaces := range [][]string{nil, {"a", "b"}} {
		options, err := cacheOptions(namespaces)
		if err != nil || len(options.DefaultNamespaces) != len(namespaces) {
			t.Errorf("namespaces %q: %v, %v", namespaces, options.DefaultNamespaces, err)
		}
		for object, rule := range options.ByObject {
			if _, _, err := scheme.ObjectKinds(object); err != nil {
				t.Errorf("%T is not in the scheme: %v", object, err)
			}
			if rule.Label == nil && rule.Transform == nil {
				t.Errorf("%T is cached whole", object)
			}
		}
	}
	if _, err := cacheOptions([]string{"not a name"}); err == nil {
		t.Error("a namespace that can't exist was accepted")
	}
}
