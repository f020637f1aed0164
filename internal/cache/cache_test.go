package cache

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	k8sappsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/fettle-dev/fettle/internal/testenv"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	testenv.Main(m, &env, testenv.Options{Fast: true})
}

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

// twice applies a transform twice, as the cache may do.
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
		Phase: corev1.PodPending, Reason: "Evicted", Message: "why", PodIP: "10.0.0.1",
		Conditions:            []corev1.PodCondition{{Type: corev1.PodReady}},
		ContainerStatuses:     []corev1.ContainerStatus{{Name: "web"}},
		InitContainerStatuses: []corev1.ContainerStatus{{Name: "init"}},
	}
	fullStatus := status
	fullStatus.HostIP, fullStatus.QOSClass = "10.0.0.2", corev1.PodQOSBurstable
	large := fullMeta()
	large.Annotations[corev1.LastAppliedConfigAnnotation] = "{}"
	kept := fullMeta()
	kept.ManagedFields = nil
	edited, ofEdits := fullMeta(), fullMeta()
	at := new(metav1.Unix(7, 0))
	edited.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "appconfig", Operation: metav1.ManagedFieldsOperationApply, Time: at, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:a":{}}}`)},
		{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate, Time: at, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{}}`)},
	}
	ofEdits.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "appconfig", Operation: metav1.ManagedFieldsOperationApply, Time: at}}
	ofScaler := bare
	ofScaler.OwnerReferences = []metav1.OwnerReference{{Name: "set"}}
	scaled := autoscalingv1.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv1.CrossVersionObjectReference{Name: "web"}, MinReplicas: new(int32(2)), MaxReplicas: 9,
	}
	fullScaled := scaled
	fullScaled.TargetCPUUtilizationPercentage = new(int32(80))
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
			&corev1.Pod{ObjectMeta: ofPod, Spec: corev1.PodSpec{NodeName: "node"}, Status: status},
		},
		{
			"autoscaler", trimAutoscaler,
			&autoscalingv1.HorizontalPodAutoscaler{
				ObjectMeta: fullMeta(), Spec: fullScaled, Status: autoscalingv1.HorizontalPodAutoscalerStatus{CurrentReplicas: 3},
			},
			&autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: ofScaler, Spec: scaled},
		},
		{"bookkeeping", trimBookkeeping, &k8sappsv1.Deployment{ObjectMeta: large}, &k8sappsv1.Deployment{ObjectMeta: kept}},
		{"edits", trimToEdits, &corev1.ConfigMap{ObjectMeta: edited, Data: map[string]string{"a": "b"}}, &corev1.ConfigMap{ObjectMeta: ofEdits, Data: map[string]string{"a": "b"}}},
		{"missed deletion, edits", trimToEdits, missed, missed},
		{"missed deletion, bookkeeping", trimBookkeeping, missed, missed},
		{"missed deletion, identity", trimIdentity, missed, missed},
		{"missed deletion, labels", trimToLabels, missed, missed},
		{"missed deletion, pod", trimPod, missed, missed},
		{"missed deletion, autoscaler", trimAutoscaler, missed, missed},
	} {
		if diff := cmp.Diff(c.want, twice(t, c.transform, c.in)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestCache_rejectsContentsOfSecrets(t *testing.T) {
	for _, object := range []any{&corev1.Secret{}, &corev1.ConfigMap{}} {
		if out, err := trimIdentity(object); err == nil {
			t.Errorf("%T was accepted as %v", object, out)
		}
	}
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// startManager runs a manager with the operator's cache and identity until the test ends.
func startManager(t *testing.T, namespaces []string, watchSecrets bool) ctrl.Manager {
	t.Helper()
	options, err := Options(namespaces)
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(env.Operator, ctrl.Options{
		Scheme: newScheme(t), Cache: options, NewCache: New(watchSecrets), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = mgr.Start(t.Context()) }()
	if !mgr.GetCache().WaitForCacheSync(t.Context()) {
		t.Fatal("the cache did not start")
	}
	return mgr
}

func metadataOf(kind string) *metav1.PartialObjectMetadata {
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return meta
}

// fixture has own and foreign objects in a namespace, and an own one in another.
type fixture struct {
	namespace    string
	foreign, own *corev1.Secret
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	c, err := client.New(env.Admin, client.Options{Scheme: newScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	namespace := env.Namespace(t)
	s := &fixture{namespace: namespace, foreign: newSecret(namespace, "foreign", nil), own: newSecret(namespace, "own", ownLabels)}
	for _, object := range []client.Object{
		newDeployment(namespace, "ours", ownLabels), newDeployment(namespace, "foreign", nil), s.foreign, s.own,
		newSecret(env.Namespace(t), "own", ownLabels),
	} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestCache_ignoresForeignChildren(t *testing.T) {
	mgr := startManager(t, []string{newFixture(t).namespace}, true)
	list := &k8sappsv1.DeploymentList{}
	err := mgr.GetClient().List(t.Context(), list)
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "ours" || list.Items[0].ManagedFields != nil {
		t.Errorf("cached Deployments: %v, %v; want only our own, without managedFields", list.Items, err)
	}
}

func TestCache_holdsMetadataOfForeignSecrets(t *testing.T) {
	s := newFixture(t)
	mgr := startManager(t, []string{s.namespace}, true)
	got := metadataOf("Secret")
	err := mgr.GetClient().Get(t.Context(), client.ObjectKeyFromObject(s.foreign), got)
	want := identity(metav1.ObjectMeta{
		Namespace: s.namespace, Name: "foreign", UID: s.foreign.UID, ResourceVersion: s.foreign.ResourceVersion,
		CreationTimestamp: s.foreign.CreationTimestamp,
	})
	if diff := cmp.Diff(want, got.ObjectMeta); diff != "" || err != nil {
		t.Errorf("cached metadata (-want +got): %v\n%s", err, diff)
	}
	if err := mgr.GetClient().Get(t.Context(), client.ObjectKeyFromObject(s.foreign), &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("contents of a foreign Secret: %v, want none in the cache", err)
	}
	if err := mgr.GetAPIReader().Get(t.Context(), client.ObjectKeyFromObject(s.foreign), &corev1.Secret{}); err != nil {
		t.Errorf("a foreign Secret from the API server: %v", err)
	}
}

func TestCache_holdsOwnSecrets(t *testing.T) {
	mgr := startManager(t, []string{newFixture(t).namespace}, true)
	list := &corev1.SecretList{}
	err := mgr.GetClient().List(t.Context(), list)
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "own" || string(list.Items[0].Data["password"]) != "hunter2" {
		t.Errorf("cached Secrets: %v, %v; want only our own in the watched namespace", list.Items, err)
	}
	if _, err := mgr.GetCache().GetInformerForKind(t.Context(), corev1.SchemeGroupVersion.WithKind("Secret")); err != nil {
		t.Errorf("informer by kind: %v", err)
	}
}

func TestCache_readsUnwatchedSecretsByName(t *testing.T) {
	s := newFixture(t)
	mgr := startManager(t, nil, false)
	got := &corev1.Secret{}
	if err := mgr.GetClient().Get(t.Context(), client.ObjectKeyFromObject(s.own), got); err != nil || string(got.Data["password"]) != "hunter2" {
		t.Errorf("own Secret: %v, %v", got.Data, err)
	}
	if err := mgr.GetClient().List(t.Context(), &corev1.SecretList{}); !apierrors.IsForbidden(err) {
		t.Errorf("list of Secrets: %v, want Forbidden without a request", err)
	}
	if _, err := mgr.GetCache().GetInformer(t.Context(), &corev1.Secret{}); !apierrors.IsForbidden(err) {
		t.Errorf("watch of Secrets: %v, want Forbidden without a request", err)
	}
}

func newSecret(namespace, name string, labels map[string]string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Data:       map[string][]byte{"password": []byte("hunter2")},
	}
}

func newDeployment(namespace, name string, own map[string]string) *k8sappsv1.Deployment {
	labels := map[string]string{"app": name}
	return &k8sappsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: own},
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

func TestCache_hasRuleForEveryKind(t *testing.T) {
	scheme := newScheme(t)
	for _, namespaces := range [][]string{nil, {"a", "b"}} {
		options, err := Options(namespaces)
		if err != nil || len(options.DefaultNamespaces) != len(namespaces) {
			t.Errorf("namespaces %q: %v, %v", namespaces, options.DefaultNamespaces, err)
		}
		for object, rule := range options.ByObject {
			if _, _, err := scheme.ObjectKinds(object); err != nil {
				t.Errorf("%T is not in the scheme: %v", object, err)
			}
			if rule.Label == nil && rule.Transform == nil {
				t.Errorf("%T is cached completely", object)
			}
		}
	}
	if _, err := Options([]string{"not a name"}); err == nil {
		t.Error("a namespace with an invalid name was accepted")
	}
}
