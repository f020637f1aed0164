package faults

import (
	"strings"
	"testing"
)

// TestLeakDetection leaves goroutines behind until it ends.
func TestLeakDetection(t *testing.T) {
	before, _ := goroutines()
	release := make(chan struct{})
	defer close(release)
	for range leakSlack + 10 {
		go blockUntil(release)
	}
	leaked, stacks := leakedSince(before)
	if leaked < leakSlack || !strings.Contains(stacks, "faults.stay") {
		t.Errorf("saw %d goroutines too many, at\n%s", leaked, stacks)
	}
}

func blockUntil(release <-chan struct{}) { <-release }
