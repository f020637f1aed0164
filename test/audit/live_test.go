package audit_test

import (
	"context"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-dev/fettle/internal/testenv"
	"github.com/fettle-dev/fettle/test/audit"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	testenv.Main(m, &env, testenv.Options{Fast: true, Private: true, NoProject: true, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"configmaps"},
		Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"},
	}}})
}

// TestRecorder_realServer sends a known number of requests as the operator and as the user, and counts them.
func TestRecorder_realServer(t *testing.T) {
	namespace := env.Namespace(t)
	recorder, err := audit.New(env.AuditLog, env.Admin)
	must(t, err)
	changes, err := audit.WatchChanges(t.Context(), env.Admin, corev1.SchemeGroupVersion.WithResource("configmaps"))
	must(t, err)
	informer := startInformer(t, namespace)
	position, err := recorder.Mark(t.Context())
	must(t, err)

	sendRequests(t, namespace, informer)
	all, err := recorder.Since(t.Context(), position, audit.Filter{Namespace: namespace})
	must(t, err)
	mine, err := recorder.Since(t.Context(), position, audit.Filter{User: testenv.OperatorUser, Namespace: namespace})
	must(t, err)
	t.Log("\n" + all.String())
	if mine.Writes() != 4 || mine.LiveReads() != 1 || all.Writes() != 5 {
		t.Errorf("the operator made 4 writes and 1 read, of 5 writes in all; counted %d, %d and %d", mine.Writes(), mine.LiveReads(), all.Writes())
	}
	rejected := mine.Counts[audit.Key{User: testenv.OperatorUser, Class: audit.Write, Verb: "create", Resource: "secrets", Namespace: namespace}]
	if rejected.Rejected != 1 {
		t.Errorf("the rejected Secret was counted as %+v", rejected)
	}
	noOps, err := changes.NoOps(t.Context(), all)
	want := map[audit.Object]int{{Resource: "configmaps", Namespace: namespace, Name: "one"}: 1}
	if err != nil || !maps.Equal(noOps, want) {
		t.Errorf("no-op writes: %v, %v, want %v", noOps, err, want)
	}
}

// sendRequests sends 4 writes (one rejected, one redundant) and 1 live read as the operator, and 1 write as the user.
func sendRequests(t *testing.T, namespace string, informer cache.Cache) {
	t.Helper()
	operator, user := newClient(t, true), newClient(t, false)
	one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "one"}}
	must(t, operator.Create(t.Context(), one))
	for range 2 { // the second changes nothing
		one.Data = map[string]string{"a": "1"}
		must(t, operator.Update(t.Context(), one))
	}
	must(t, operator.Get(t.Context(), client.ObjectKeyFromObject(one), one))
	must(t, informer.List(t.Context(), &corev1.ConfigMapList{})) // from the cache: no request
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "refused"}}
	if err := operator.Create(t.Context(), secret); !apierrors.IsForbidden(err) {
		t.Fatalf("want forbidden, got %v", err)
	}
	must(t, user.Create(t.Context(), secret.DeepCopy()))
}

// TestInformerStart checks that a cache's first list is counted, and not as a live read.
func TestInformerStart(t *testing.T) {
	namespace := env.Namespace(t)
	recorder, err := audit.New(env.AuditLog, env.Admin)
	if err != nil {
		t.Fatal(err)
	}
	position, err := recorder.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	startInformer(t, namespace)
	summary, err := recorder.Since(t.Context(), position, audit.Filter{User: testenv.OperatorUser, Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	if summary.Of(audit.WatchList) != 1 || summary.LiveReads() != 0 || summary.Writes() != 0 {
		t.Errorf("want one watch-list and nothing else:\n%s", summary)
	}
}

func startInformer(t *testing.T, namespace string) cache.Cache {
	t.Helper()
	informer, err := cache.New(env.Operator, cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- informer.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	// The list waits for the informer, so its requests count before the test continues.
	must(t, informer.List(t.Context(), &corev1.ConfigMapList{}))
	return informer
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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
