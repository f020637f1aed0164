package rollout

import (
	"testing"
	"time"
)

func TestWindow(t *testing.T) {
	for name, tc := range map[string]struct {
		schedule, zone string
		duration       time.Duration
		now            string
		open           bool
		wait           time.Duration
	}{
		"before":               {"0 2 * * *", "", time.Hour, "2026-11-20T01:30:00Z", false, 30 * time.Minute},
		"when it opens":        {"0 2 * * *", "", time.Hour, "2026-11-20T02:00:00Z", true, 0},
		"inside":               {"0 2 * * *", "", time.Hour, "2026-11-20T02:59:59Z", true, 0},
		"when it closes":       {"0 2 * * *", "", time.Hour, "2026-11-20T03:00:00Z", false, 23 * time.Hour},
		"in another zone":      {"0 2 * * *", "Europe/Berlin", time.Hour, "2026-11-20T01:30:00Z", true, 0},
		"longer than a period": {"0 * * * *", "", 90 * time.Minute, "2026-11-20T01:45:00Z", true, 0},
		"over midnight":        {"0 23 * * 5", "", 4 * time.Hour, "2026-11-21T02:30:00Z", true, 0},
		"never":                {"0 0 31 2 *", "", time.Hour, "2026-11-20T00:00:00Z", false, 0},
	} {
		w, err := ParseWindow(tc.schedule, tc.duration, tc.zone)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		now, err := time.Parse(time.RFC3339, tc.now)
		if err != nil {
			t.Fatal(err)
		}
		if open, wait := w.open(now); open != tc.open || wait != tc.wait {
			t.Errorf("%s: open %v, wait %s", name, open, wait)
		}
	}
	if open, _ := (*Window)(nil).open(start); !open {
		t.Error("without a window, restarts must always be allowed")
	}
}

func TestParseWindow_rejects(t *testing.T) {
	for name, tc := range map[string]struct {
		schedule, zone string
		duration       time.Duration
	}{
		"a zone in the schedule": {"TZ=0", "", time.Hour}, "another": {"CRON_TZ=UTC * * * * *", "", time.Hour},
		"a descriptor": {"@daily", "", time.Hour}, "six fields": {"0 0 2 * * *", "", time.Hour}, "none": {"", "", time.Hour},
		"no duration": {"0 2 * * *", "", 0}, "an unknown zone": {"0 2 * * *", "Berlin", time.Hour}, "the machine's zone": {"0 2 * * *", "Local", time.Hour},
	} {
		if _, err := ParseWindow(tc.schedule, tc.duration, tc.zone); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// FuzzParseWindow checks that no schedule makes the parser panic.
func FuzzParseWindow(f *testing.F) {
	f.Add("0 2 * * *")
	f.Add("TZ=0")
	f.Fuzz(func(_ *testing.T, schedule string) {
		if w, err := ParseWindow(schedule, time.Hour, ""); err == nil {
			w.open(start)
		}
	})
}
