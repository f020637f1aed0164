package postgres

import (
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// TestFailover_times measures the time without an acknowledged row by fault. Set FETTLE_PG_RUNS to the number of runs.
func TestFailover_times(t *testing.T) {
	runs, err := strconv.Atoi(os.Getenv("FETTLE_PG_RUNS"))
	if err != nil || runs < 1 {
		t.Skip("set FETTLE_PG_RUNS to the number of runs")
	}
	c, l := newClusterWithWriter(t, synchronous)
	for _, fault := range []struct {
		name     string
		do, undo func(*instance)
	}{
		{"switchover", c.switchover, c.switchedOver},
		{"SIGKILL of the postmaster", killServer, nil},
		{"SIGKILL of the container", killContainer, nil},
		{"the pod is replaced", replacePod, nil},
		{"SIGSTOP of PostgreSQL", stopPostgreSQL, nil},
		{"the node is lost", (*instance).kill, (*instance).start},
		{"partition", (*instance).partition, (*instance).reconnect},
	} {
		var gaps []time.Duration
		for range runs {
			gaps = append(gaps, c.injectFault(l, fault.name, fault.do, fault.undo))
			time.Sleep(6 * time.Second) // a primary that has only just become one makes no switchover
		}
		slices.Sort(gaps)
		t.Logf("TIMES %-26s p50 %5d ms, max %5d ms, %d runs; memory of the agents: %s", fault.name,
			gaps[len(gaps)/2].Milliseconds(), gaps[len(gaps)-1].Milliseconds(), runs, c.memory())
	}
	c.check(l)
}
