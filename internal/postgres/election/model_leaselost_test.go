package election

import (
	"flag"
	"strings"
	"testing"
)

var lostSchedules = flag.Int("lost-schedules", 1000, "how many random schedules the model runs in which the Lease is lost again and again")

// losses are faults that together lose the record of the Lease repeatedly.
var losses = []string{
	"Lease is deleted", "Lease is deleted", "Lease is deleted", "Lease is deleted", "Lease is re-created", "answers get lost",
	"container is killed", "container is killed", "node is lost", "PostgreSQL crashes", "isolated", "cut from the API server",
	"link cut", "network heals", "network heals", "replication is slow",
}

// TestModel_leaseLostRepeatedly loses the record of the Lease repeatedly, which is rare among all faults.
func TestModel_leaseLostRepeatedly(t *testing.T) {
	if *seed != 0 {
		s := run(*seed, true, losses...)
		t.Log(strings.Join(s.sim.log, "\n"), s.sim.broken)
		return
	}
	for i := range *lostSchedules {
		if s := run(uint64(i+1), false, losses...); len(s.sim.broken) > 0 {
			t.Fatalf("seed %d (%d instances, synchronous %d): %s", s.seed, s.nodes, s.sync, strings.Join(s.sim.broken, "\n"))
		}
	}
}
