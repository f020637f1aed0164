package postgres

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestTimes measures how long a client gets no row acknowledged, by fault. It runs when FETTLE_PG_RUNS says how often.
func TestTimes(t *testing.T) {
	runs, err := strconv.Atoi(os.Getenv("FETTLE_PG_RUNS"))
	if err != nil || runs < 1 {
		t.Skip("nothing is measured: set FETTLE_PG_RUNS to the number of runs")
	}
	c, l := newWritten(t, synchronous)
	for _, fault := range []struct {
		name     string
		do, undo func(*instance)
	}{
		{"switchover", c.switchover, c.switchedOver},
		{"SIGKILL of the postmaster", killServer, nil},
		{"SIGKILL of the container", killAll, nil},
		{"the pod is replaced", replacePod, nil},
		{"SIGSTOP of PostgreSQL", hang, nil},
		{"the node is lost", (*instance).kill, (*instance).start},
		{"partition", (*instance).isolate, (*instance).rejoin},
	} {
		var gaps []time.Duration
		for range runs {
			gaps = append(gaps, c.fault(l, fault.name, fault.do, fault.undo))
			time.Sleep(6 * time.Second) // a primary that has only just become one makes no switchover
		}
		slices.Sort(gaps)
		t.Logf("TIMES %-26s p50 %5d ms, max %5d ms, %d runs; memory of the agents: %s", fault.name,
			gaps[len(gaps)/2].Milliseconds(), gaps[len(gaps)-1].Milliseconds(), runs, c.memory())
	}
	c.check(l)
}

// memory is what the agents have resident, in MiB: all of it, and what is their own alone (the rest are pages of the
// program's file).
func (c *cluster) memory() string {
	var out []string
	for _, i := range c.instances {
		agent, _ := i.pids()
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", agent))
		if err != nil {
			continue
		}
		values := map[string]int{}
		for line := range strings.Lines(string(content)) {
			if fields := strings.Fields(line); len(fields) > 1 {
				values[fields[0]], _ = strconv.Atoi(fields[1])
			}
		}
		out = append(out, fmt.Sprintf("%d (%d)", values["VmRSS:"]>>10, values["RssAnon:"]>>10))
	}
	return strings.Join(out, ", ") + " MiB"
}
