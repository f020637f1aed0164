package faults

import (
	"context"
	"fmt"
	"testing"

	k8sappsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/yaml"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/controllers"
	"github.com/fettle-dev/fettle/internal/testenv/fakepg"
)

const (
	pgName = "shop"

	threeInstances = `{version: "16", storage: 1Gi, replicas: 3, roles: [{name: reader}]}`
)

var (
	postgreSQLs = databasev1alpha1.GroupVersion.WithResource("postgresqls")
	pgSets      = k8sappsv1.SchemeGroupVersion.WithResource("statefulsets")
	pgPods      = corev1.SchemeGroupVersion.WithResource("pods")
	pgClaims    = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
	pgSecrets   = corev1.SchemeGroupVersion.WithResource("secrets")
	pgLeases    = coordinationv1.SchemeGroupVersion.WithResource("leases")
	pgChildren  = []schema.GroupVersionResource{
		pgSets, pgPods, pgClaims, pgSecrets, pgLeases,
		corev1.SchemeGroupVersion.WithResource("services"), corev1.SchemeGroupVersion.WithResource("serviceaccounts"),
		rbacv1.SchemeGroupVersion.WithResource("roles"), rbacv1.SchemeGroupVersion.WithResource("rolebindings"),
		policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"),
	}
)

// TestPostgreSQL disturbs the creation of three instances.
func TestPostgreSQL(t *testing.T) {
	report := Run(t, env, pgScenario(t, "create", []Step{pgStep("create", threeInstances, 3)}))
	t.Logf("faults: %d plans, %d violations", report.Plans, len(report.Violations))
}

func pgScenario(t *testing.T, name string, steps []Step) Scenario {
	t.Helper()
	scenario := webScenario(t, "postgresql-"+name, steps)
	scenario.Primary, scenario.Children, scenario.DataPlane = postgreSQLs, pgChildren, false
	scenario.Around, scenario.Rules = runInstances, pgRules()
	scenario.Setup = func(mgr manager.Manager, namespace string) error {
		return controllers.Setup(mgr, controllers.Options{
			Namespaces: []string{namespace}, Workers: 5, WatchSecrets: true, AgentImage: "example.com/agent:1",
		})
	}
	return scenario
}

// runInstances runs the fake of what is around the instances of one plan.
func runInstances(ctx context.Context, namespace string) (func(), error) {
	plane, err := fakepg.Start(ctx, env.DataPlane, fakepg.Options{Namespace: namespace})
	if err != nil {
		return nil, err
	}
	return plane.Wait, nil
}

// pgStep creates the PostgreSQL or replaces its spec, and waits until all instances are as it asks.
func pgStep(name, spec string, instances int) Step {
	return Step{Name: name, Converged: pgRuns(instances), Do: setsPostgreSQL(spec)}
}

func pgRuns(instances int) func(View) error {
	return func(v View) error {
		if err := Ready(postgreSQLs, pgName)(v); err != nil {
			return err
		}
		if n := len(v.Keys(pgPods)); n != instances {
			return fmt.Errorf("%d pods", n)
		}
		return nil
	}
}

func setsPostgreSQL(spec string) func(context.Context, *World) error {
	return func(ctx context.Context, w *World) error {
		return changes(ctx, w, func(pg *databasev1alpha1.PostgreSQL) error {
			pg.Spec = databasev1alpha1.PostgreSQLSpec{}
			return yaml.UnmarshalStrict([]byte(spec), &pg.Spec)
		})
	}
}

// changes is what a user does, who does not mind that the operator writes meanwhile.
func changes(ctx context.Context, w *World, f func(*databasev1alpha1.PostgreSQL) error) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		pg := &databasev1alpha1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Name: pgName, Namespace: w.Namespace}}
		err := w.Get(ctx, client.ObjectKeyFromObject(pg), pg)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		missing := err != nil
		if err := f(pg); err != nil {
			return err
		}
		if missing {
			return w.Create(ctx, pg)
		}
		return w.Update(ctx, pg)
	})
}
