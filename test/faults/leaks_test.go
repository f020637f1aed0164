package faults

import (
	"strings"
	"testing"
)

// TestLeakDetection leaks goroutines until it ends.
func TestLeakDetection(t *testing.T) {
	before, _ := goroutines()
	release := make(chan struct{})
	defer close(release)
	for range leakSlack + 10 {
		go blockUntil(release)
	}
	leaked, stacks := leakedSince(before)
	if leaked < leakSlack || !strings.Contains(stacks, "faults.blockUntil") {
		t.Errorf("found %d leaked goroutines at\n%s", leaked, stacks)
	}
}

func blockUntil(release <-chan struct{}) { <-release }
