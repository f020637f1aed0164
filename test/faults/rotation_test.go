package faults

import "testing"

// TestPlansOfDay checks that the days of a rotation run every plan once, and that each day has plans.
func TestPlansOfDay(t *testing.T) {
	var all []Plan
	for i := range 31 {
		all = append(all, Plan{Kind: CrashBefore, Write: i + 1})
	}
	if got := plansOfDay(all, 3, 0); len(got) != len(all) {
		t.Errorf("without a rotation: %d plans", len(got))
	}
	runs := map[string]int{}
	for day := range 14 {
		plans := plansOfDay(all, day+14*100, 14)
		if len(plans) < 2 {
			t.Errorf("day %d: %d plans", day, len(plans))
		}
		for _, p := range plans {
			runs[p.ID()]++
		}
	}
	for _, p := range all {
		if runs[p.ID()] != 1 {
			t.Errorf("%s is run %d times", p.ID(), runs[p.ID()])
		}
	}
}

// TestCheckCoverage checks that a scenario without faults fails.
func TestCheckCoverage(t *testing.T) {
	for name, c := range map[string]struct {
		report Report
		wrong  bool
	}{
		"all":                    {Report{Plans: 30}, false},
		"some missed":            {Report{Plans: 30, Missed: 15}, false},
		"many missed":            {Report{Plans: 30, Missed: 16}, true},
		"the only one missed":    {Report{Plans: 1, Missed: 1}, true},
		"none":                   {Report{}, true},
		"a fault-free run fails": {Report{Violations: []Violation{{}}}, false},
	} {
		if err := c.report.checkCoverage(); (err != nil) != c.wrong {
			t.Errorf("%s: %v", name, err)
		}
	}
}
