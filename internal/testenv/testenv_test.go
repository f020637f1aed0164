package testenv_test

import (
	"strings"
	"testing"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-dev/fettle/internal/testenv"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	testenv.Main(m, &env, testenv.Options{Fast: true, Private: true, NoProject: true, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "create"},
	}}})
}

func newClient(t *testing.T, operator bool) client.Client {
	t.Helper()
	config := env.Admin
	if operator {
		config = env.Operator
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestOperator_hasOnlyItsRole(t *testing.T) {
	c, namespace := newClient(t, true), env.Namespace(t)
	allowed := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "allowed"}}
	if err := c.Create(t.Context(), allowed); err != nil {
		t.Fatalf("create a ConfigMap, which the role grants: %v", err)
	}
	err := c.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "denied"}})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), testenv.OperatorUser) {
		t.Fatalf("create a Secret, which the role does not grant: want forbidden for %s, got %v", testenv.OperatorUser, err)
	}
}

func TestIdentity_hasOwnRights(t *testing.T) {
	config, err := env.Identity(t.Context(), "someone", []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	namespace := env.Namespace(t)
	if err := c.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "allowed"}}); err != nil {
		t.Fatal(err)
	}
	err = c.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "denied"}})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `"someone"`) {
		t.Fatalf("want forbidden for someone, got %v", err)
	}
}

func TestDropNamespace(t *testing.T) {
	namespace := env.Namespace(t)
	if err := env.DropNamespace(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	err := newClient(t, false).Get(t.Context(), client.ObjectKey{Name: namespace}, &corev1.Namespace{})
	if !apierrors.IsNotFound(err) {
		t.Fatalf("the namespace is still there: %v", err)
	}
}

func TestNamespace_unique(t *testing.T) {
	if a, b := env.Namespace(t), env.Namespace(t); a == b {
		t.Fatalf("two namespaces named %s", a)
	}
}

func TestStart_sharedServer(t *testing.T) {
	dir, err := env.Share()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(testenv.SharedVariable, dir)
	joined, err := testenv.Start(testenv.Options{NoProject: true})
	if err != nil {
		t.Fatal(err)
	}
	if joined.AuditLog != env.AuditLog || joined.Operator.Host != env.Operator.Host {
		t.Fatalf("joined %s, want %s", joined.Operator.Host, env.Operator.Host)
	}
	if err := joined.Stop(); err != nil {
		t.Fatal(err)
	}
	joined.Namespace(t) // the server must outlive those who joined it
}

func TestStart_missingAssets(t *testing.T) {
	t.Setenv("KUBEBUILDER_ASSETS", "")
	t.Setenv(testenv.SharedVariable, "")
	_, err := testenv.Start(testenv.Options{NoProject: true})
	if err == nil || !strings.Contains(err.Error(), "make test") {
		t.Fatalf("want an error that names `make test`, got %v", err)
	}
}

func TestDataPlane(t *testing.T) {
	plane, err := env.StartDataPlane(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, namespace := newClient(t, false), env.Namespace(t)
	labels := map[string]string{"app": "web"}
	deployment := &k8sappsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
		Spec: k8sappsv1.DeploymentSpec{
			Replicas: new(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
			},
		},
	}
	if err := c.Create(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	eventually(t, c, deployment, "rolled out", func() bool {
		s := deployment.Status
		return s.ObservedGeneration == deployment.Generation && s.AvailableReplicas == 3 && len(s.Conditions) == 2
	})

	plane.Set(namespace, "web", testenv.Rollout{Image: "nginx", Waiting: "ImagePullBackOff", Message: "no such image"})
	eventually(t, c, deployment, "unavailable", func() bool { return deployment.Status.UnavailableReplicas == 3 })
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web-fake-0"}}
	eventually(t, c, pod, "waiting", func() bool {
		s := pod.Status.ContainerStatuses
		return len(s) == 1 && s[0].State.Waiting != nil && s[0].State.Waiting.Reason == "ImagePullBackOff" && pod.Labels["app"] == "web"
	})

	deployment.Spec.Template.Spec.Containers[0].Image = "another"
	if err := c.Update(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	eventually(t, c, deployment, "healed", func() bool { return deployment.Status.ReadyReplicas == 3 })
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); !apierrors.IsNotFound(err) {
		t.Fatalf("the waiting pod is still there: %v", err)
	}
}

func eventually(t *testing.T, c client.Client, object client.Object, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object)
		if err == nil && done() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%T %s is not %s after 10 s: %v, %+v", object, object.GetName(), what, err, object)
		}
	}
}
