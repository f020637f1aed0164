package faults

import (
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/fettle-dev/fettle/internal/testenv"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	testenv.Main(m, &env, testenv.Options{Fast: true, Private: true, CRDPaths: []string{"testdata/crds"}})
}

func TestDemo(t *testing.T) {
	scenario := demoScenario("demo", newDemo)
	scenario.Identity = demoIdentity(t)
	report := Run(t, env, scenario)
	for _, kind := range []Kind{CrashBefore, CrashAfter, LostResponse, LostAndStale, Stale, Reply, HeldReply, Unheard, Deleted, Changed} {
		if report.Kinds[kind] == 0 {
			t.Errorf("no plan of kind %s was run", kind)
		}
	}
	t.Log("writes of a fault-free run:\n" + strings.Join(report.Writes, "\n"))
}

func demoIdentity(t *testing.T) *rest.Config {
	t.Helper()
	config, err := env.Identity(t.Context(), "demo-controller", demoRules)
	if err != nil {
		t.Fatal(err)
	}
	return config
}
