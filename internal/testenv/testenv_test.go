package testenv_test

import (
	"strings"
	"testing"

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

func TestOperator_hasOnlyItsRole(t *testing.T) {
	c, err := client.New(env.Operator, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	namespace := env.Namespace(t)
	allowed := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "allowed"}}
	if err := c.Create(t.Context(), allowed); err != nil {
		t.Fatalf("create a ConfigMap, which the role grants: %v", err)
	}
	err = c.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "denied"}})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), testenv.OperatorUser) {
		t.Fatalf("create a Secret, which the role does not grant: want forbidden for %s, got %v", testenv.OperatorUser, err)
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
