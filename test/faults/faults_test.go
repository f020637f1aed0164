package faults

import (
	"strings"
	"testing"

	"github.com/fettle-dev/fettle/internal/testenv"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	testenv.Main(m, &env, testenv.Options{Fast: true, NoProject: true, CRDPaths: []string{"testdata/crds"}, Rules: demoRules})
}

func TestDemo(t *testing.T) {
	report := Run(t, env, demoScenario("demo", newDemo))
	for _, kind := range []Kind{CrashBefore, CrashAfter, LostResponse, LostAndStale, Stale, Reply, HeldReply, Deleted, Changed} {
		if report.Kinds[kind] == 0 {
			t.Errorf("no plan of kind %s was run", kind)
		}
	}
	t.Log("writes of a fault-free run:\n" + strings.Join(report.Writes, "\n"))
}
