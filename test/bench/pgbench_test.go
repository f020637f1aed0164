package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParsePgbench(t *testing.T) {
	rate, err := parsePgbench("latency average = 6.738 ms\ninitial connection time = 45.321 ms\ntps = 1187.301234 (without initial connection time)\n")
	if rate != 1187.301234 || err != nil {
		t.Error(rate, err)
	}
	if _, err := parsePgbench("pgbench: error: connection refused"); err == nil {
		t.Error("an output without figures is accepted")
	}
}

func TestDifferences(t *testing.T) {
	got := differences(map[string]string{"same": "1", "other": "1", "less": "1"}, map[string]string{"same": "1", "other": "2", "more": "1"})
	want := []string{`less is "1" and ""`, `more is "" and "1"`, `other is "1" and "2"`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
