package faults

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	oneInstance    = `{version: "16", storage: 1Gi}`
	twoInstances   = `{version: "16", storage: 1Gi, replicas: 2, storageClassName: grows}`
	moreMemory     = `{version: "16", storage: 1Gi, replicas: 2, storageClassName: grows, resources: {requests: {cpu: 10m}}}`
	moreSessions   = `{version: "16", storage: 1Gi, replicas: 2, storageClassName: grows, resources: {requests: {cpu: 10m}}, parameters: {max_connections: "50"}}`
	moreStorage    = `{version: "16", storage: 2Gi, replicas: 2, storageClassName: grows}`
	goesWithData   = `{version: "16", storage: 1Gi, deletionPolicy: Delete}`
)

var (
	postgreSQLs = databasev1alpha1.GroupVersion.WithResource("postgresqls")
	pgSets      = k8sappsv1.SchemeGroupVersion.WithResource("statefulsets")
	pgPods      = corev1.SchemeGroupVersion.WithResource("pods")
	pgClaims    = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
	pgSecrets   = corev1.SchemeGroupVersion.WithResource("secrets")
	pgPolicies  = networkingv1.SchemeGroupVersion.WithResource("networkpolicies")
	pgLeases    = coordinationv1.SchemeGroupVersion.WithResource("leases")
	pgChildren  = []schema.GroupVersionResource{
		pgSets, pgPods, pgClaims, pgSecrets, pgLeases,
		corev1.SchemeGroupVersion.WithResource("services"), corev1.SchemeGroupVersion.WithResource("serviceaccounts"),
		rbacv1.SchemeGroupVersion.WithResource("roles"), rbacv1.SchemeGroupVersion.WithResource("rolebindings"),
		policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"), pgPolicies,
	}
)

// pgContent is the steps of a scenario and the rules for them.
type pgContent struct {
	rules Rules
	steps []Step
}

// postgreSQLScenarios inject faults into the creation only once, in the first scenario.
func postgreSQLScenarios(t *testing.T) []Scenario {
	expandableStorageClass(t)
	return scenariosOf(map[string]pgContent{
		"create": {pgRules(true), []Step{pgStep("create", threeInstances, 3)}},
		"scale":  {pgRules(false), []Step{pgStep("create", oneInstance, 1), pgStep("up", threeInstances, 3), pgStep("down", oneInstance, 1)}},
		"update": {updateRules(), []Step{
			pgStep("create", twoInstances, 2), replaces("another template", moreMemory), restarts("a parameter that needs a restart", moreSessions),
		}},
		"change": {changeRules(), []Step{
			pgStep("create", twoInstances, 2), switches("another primary", pgName+"-1"), rotates("another password"), growsVolumes("larger volumes", moreStorage),
		}},
		"delete": {deletionRules(), []Step{
			pgStep("create", goesWithData, 1), keepsData("keep the data", oneInstance), deletesPostgreSQL("delete", 2),
			pgStep("create again", oneInstance, 1), dropsData("delete the data too", goesWithData), deletesPostgreSQL("delete again", 0),
		}},
		"restore": {inPlaceRules(), inPlaceSteps()},
	}, func(name string, content pgContent) Scenario {
		scenario := pgScenario(t, name, content.rules, content.steps)
		switch name {
		case "create":
			scenario.Deletion = &Deletion{Object: Key{postgreSQLs, pgName}, Kept: pgData}
		case "delete":
			scenario.Deletion = &Deletion{Object: Key{postgreSQLs, pgName}} // with its data
		case "restore":
			scenario.Children = inPlaceChildren
		}
		return scenario
	})
}

func pgScenario(t *testing.T, name string, rules Rules, steps []Step) Scenario {
	t.Helper()
	scenario := webScenario(t, "postgresql-"+name, steps)
	scenario.Primary, scenario.Children = postgreSQLs, pgChildren
	scenario.Background, scenario.Rules = runInstances, rules
	scenario.Setup = func(mgr manager.Manager, namespace string) error {
		return controllers.Setup(mgr, controllers.Options{
			Namespaces: []string{namespace}, Workers: 5, WatchSecrets: true, AgentImage: "example.com/agent:1",
		})
	}
	return scenario
}

// instancesOf are the fake kubelets of the running plans, by namespace.
var instancesOf sync.Map

// startTime is how long an instance takes to become ready: long enough to detect a controller that does not wait for it.
const startTime = 150 * time.Millisecond

// runInstances runs the fake environment of the instances of one plan.
func runInstances(ctx context.Context, namespace string) (func(), error) {
	kubelet, err := fakepg.Start(ctx, env.DataPlane, fakepg.Options{Namespace: namespace, Start: startTime})
	if err != nil {
		return nil, err
	}
	instancesOf.Store(namespace, kubelet)
	return func() {
		kubelet.Wait()
		instancesOf.Delete(namespace)
	}, nil
}

// kubeletOf is the fake kubelet of a plan.
func kubeletOf(namespace string) *fakepg.Kubelet {
	kubelet, _ := instancesOf.Load(namespace)
	return kubelet.(*fakepg.Kubelet)
}

// pgStep creates the PostgreSQL or replaces its spec, and waits until all instances match it.
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
		if phase, _, _ := unstructured.NestedString(v.Get(postgreSQLs, pgName).Object, "status", "phase"); phase != string(databasev1alpha1.PhaseRunning) {
			return fmt.Errorf("phase %s", phase) // Ready does not wait for standbys
		}
		return nil
	}
}

func setsPostgreSQL(spec string) func(context.Context, *Client) error {
	return func(ctx context.Context, w *Client) error {
		return changes(ctx, w, func(pg *databasev1alpha1.PostgreSQL) error {
			pg.Spec = databasev1alpha1.PostgreSQLSpec{}
			return yaml.UnmarshalStrict([]byte(spec), &pg.Spec)
		})
	}
}

// changes is a change by a user, which is retried after a conflict with the operator's write.
func changes(ctx context.Context, w *Client, f func(*databasev1alpha1.PostgreSQL) error) error {
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
