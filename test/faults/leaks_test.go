package faults

import (
	"strings"
	"testing"
	"time"
)

// TestLeakDetection leaks goroutines until it ends.
func TestLeakDetection(t *testing.T) {
	before, _ := goroutines()
	release := make(chan struct{})
	defer close(release)
	for range 10 * leakSlack { // others may end meanwhile
		go blockUntil(release)
	}
	leaked, stacks := leakedSince(before, time.Second)
	if leaked < leakSlack || !strings.Contains(stacks, "faults.blockUntil") {
		t.Errorf("found %d leaked goroutines at\n%s", leaked, stacks)
	}
}

func blockUntil(release <-chan struct{}) { <-release }
