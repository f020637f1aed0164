package schedule

import (
	"strings"
	"testing"
	"time"
)

func at(text string) time.Time {
	t, err := time.Parse("2006-01-02 15:04:05", text)
	if err != nil {
		panic(err)
	}
	return t
}

func parse(t *testing.T, expression, zone string) *Schedule {
	t.Helper()
	s, err := Parse(expression, zone)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Attack 47: a schedule that starts a run every minute, or that makes the parser panic or loop.
func TestParse_rejects(t *testing.T) {
	for _, c := range []struct{ expression, zone, want string }{
		{"* * * * *", "", "every 1m0s, which is more often than every 5m0s"},
		{"*/4 * * * *", "", "every 4m0s"},
		{"0,58 * * * *", "", "every 2m0s"},
		{"0,57 0,23 * * *", "", "every 3m0s"},
		{"0,57 4,5 * * *", "", "every 3m0s"},
		{"@every 1s", "", "one of @yearly"},
		{"@", "", "one of @yearly"},
		{"TZ=Europe/Berlin 0 2 * * *", "", "set the time zone in timeZone"},
		{"TZ=", "", "set the time zone in timeZone"},
		{"0 2 * *", "", "expected exactly 5 fields"},
		{"61 2 * * *", "", "above maximum"},
		{"0 2 30 2 *", "", "never comes"},
		{"0 2 * * *", "Local", "the zone of the operator's pod"},
		{"0 2 * * *", "Europe/Atlantis", "must be a name of the time zone database"},
		{"0 2 * * *", "../../etc/passwd", "must be a name of the time zone database"},
	} {
		if _, err := Parse(c.expression, c.zone); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q in %q: %v, want %q", c.expression, c.zone, err, c.want)
		}
	}
	for _, expression := range []string{"*/5 * * * *", "0,58 2 * * *", "@daily", "@hourly", "0 0 29 2 *", "0-59/5 8-18 * * mon-fri"} {
		parse(t, expression, "America/New_York")
	}
}

func TestNext_whenClocksChange(t *testing.T) {
	for name, c := range map[string]struct {
		expression, zone, after string
		want                    []string
	}{
		"spring: the night is not left out": {"30 2 * * *", "Europe/Berlin", "2026-03-28 12:00:00",
			[]string{"2026-03-29 01:30:00", "2026-03-30 00:30:00"}},
		"spring, west of UTC": {"30 2 * * *", "America/New_York", "2026-03-08 00:00:00",
			[]string{"2026-03-08 06:30:00", "2026-03-09 06:30:00"}},
		"spring, every hour": {"0 * * * *", "Europe/Berlin", "2026-03-28 23:30:00",
			[]string{"2026-03-29 00:00:00", "2026-03-29 01:00:00", "2026-03-29 02:00:00"}},
		"autumn, every hour": {"0 * * * *", "Europe/Berlin", "2026-10-24 23:30:00",
			[]string{"2026-10-25 00:00:00", "2026-10-25 01:00:00", "2026-10-25 02:00:00"}},
		"autumn: the night is not left out": {"0 4 * * *", "Europe/Berlin", "2026-10-24 12:00:00",
			[]string{"2026-10-25 03:00:00", "2026-10-26 03:00:00"}},
		"UTC": {"0 2 * * *", "", "2026-03-28 02:00:00", []string{"2026-03-29 02:00:00"}},
	} {
		s, after := parse(t, c.expression, c.zone), at(c.after)
		for _, want := range c.want {
			if after = s.Next(after); !after.Equal(at(want)) {
				t.Errorf("%s: %s, want %s", name, after, want)
			}
		}
	}
}

func TestDue(t *testing.T) {
	hour := time.Hour
	for name, c := range map[string]struct {
		timing     Timing
		now        string
		slot, next string
	}{
		"not yet":                {Timing{Deadline: hour, After: at("2026-06-01 02:00:00")}, "2026-06-02 01:59:59", "", "2026-06-02 02:00:00"},
		"now":                    {Timing{Deadline: hour, After: at("2026-06-01 02:00:00")}, "2026-06-02 02:00:00", "2026-06-02 02:00:00", "2026-06-03 02:00:00"},
		"has run":                {Timing{Deadline: hour, After: at("2026-06-02 02:00:00")}, "2026-06-02 02:00:01", "", "2026-06-03 02:00:00"},
		"late":                   {Timing{Deadline: hour, After: at("2026-06-01 02:00:00")}, "2026-06-02 03:00:00", "2026-06-02 02:00:00", "2026-06-03 02:00:00"},
		"too late":               {Timing{Deadline: hour, After: at("2026-06-01 02:00:00")}, "2026-06-02 03:00:01", "", "2026-06-03 02:00:00"},
		"missed for a week":      {Timing{Deadline: 7 * 24 * hour, After: at("2026-06-01 02:00:00")}, "2026-06-08 12:00:00", "2026-06-08 02:00:00", "2026-06-09 02:00:00"},
		"created after it":       {Timing{Deadline: hour, After: at("2026-06-02 02:10:00")}, "2026-06-02 02:20:00", "", "2026-06-03 02:00:00"},
		"jitter":                 {Timing{Jitter: hour / 2, Deadline: hour, After: at("2026-06-01 02:00:00")}, "2026-06-02 02:29:59", "", "2026-06-02 02:30:00"},
		"jitter, now":            {Timing{Jitter: hour / 2, Deadline: hour, After: at("2026-06-01 02:00:00")}, "2026-06-02 03:30:00", "2026-06-02 02:00:00", "2026-06-03 02:30:00"},
		"jitter, too late":       {Timing{Jitter: hour / 2, Deadline: hour, After: at("2026-06-01 02:00:00")}, "2026-06-02 03:30:01", "", "2026-06-03 02:30:00"},
		"jitter of over a day":   {Timing{Jitter: 24 * hour, Deadline: hour, After: at("2026-06-01 02:00:00")}, "2026-06-03 02:00:00", "2026-06-02 02:00:00", "2026-06-04 02:00:00"},
		"the clock was set back": {Timing{Deadline: hour, After: at("2026-06-05 02:00:00")}, "2026-06-02 02:00:00", "", "2026-06-06 02:00:00"},
	} {
		slot, next := parse(t, "0 2 * * *", "").Due(c.timing, at(c.now))
		if c.slot == "" && !slot.IsZero() || c.slot != "" && !slot.Equal(at(c.slot)) || !next.Equal(at(c.next)) {
			t.Errorf("%s: %s and %s, want %s and %s", name, slot, next, c.slot, c.next)
		}
	}
}

func TestJitter_isConstantAndBounded(t *testing.T) {
	different := map[time.Duration]bool{}
	for _, uid := range []string{"a", "b", "c", "d", "e"} {
		j := Jitter(uid, 600)
		if j != Jitter(uid, 600) || j < 0 || j > 10*time.Minute || Jitter(uid, 0) != 0 {
			t.Errorf("%s: %s", uid, j)
		}
		different[j] = true
	}
	if len(different) < 3 {
		t.Errorf("%d different delays of 5 objects", len(different))
	}
}

func TestRunName_isThatOfTheSlot(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	slot := at("2026-06-02 02:00:00")
	if name := RunName("db", slot.In(berlin)); name != "db-202606020200" || name != RunName("db", slot.Add(59*time.Second)) {
		t.Error(name)
	}
	if name := RunName(strings.Repeat("a", 40), slot); len(name) > 57 {
		t.Errorf("%s is longer than the name of a BackupRun may be", name)
	}
}
