package retention

import (
	"fmt"
	"slices"
	"testing"
	"time"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
)

var now = time.Date(2026, 3, 31, 12, 0, 0, 0, time.UTC)

// ages returns runs that were completed so many days ago, named after it.
func ages(days ...int) []Run {
	var runs []Run
	for _, d := range days {
		runs = append(runs, Run{Name: fmt.Sprint(d), Completed: now.AddDate(0, 0, -d)})
	}
	return runs
}

func TestRetention_expired(t *testing.T) {
	for name, c := range map[string]struct {
		retention string
		policy    *backupv1alpha1.RetentionPolicy
		runs      []Run
		want      []string
	}{
		"unset keeps all":               {runs: ages(0, 10000)},
		"hours":                         {retention: "48h", runs: ages(0, 1, 2, 3), want: []string{"3"}},
		"days, the oldest first":        {retention: "7d", runs: ages(8, 0, 7, 9), want: []string{"9", "8"}},
		"weeks":                         {retention: "1w", runs: ages(0, 7, 8), want: []string{"8"}},
		"a month from the 31st":         {retention: "1m", runs: ages(0, 31, 32), want: []string{"32"}},
		"a year":                        {retention: "1y", runs: ages(0, 365, 366), want: []string{"366"}},
		"count":                         {retention: "2c", runs: ages(5, 1, 3), want: []string{"5"}},
		"the newest is never deleted":   {retention: "1d", runs: ages(400, 500), want: []string{"500"}},
		"minKeep":                       {policy: &backupv1alpha1.RetentionPolicy{KeepLast: 1, MinKeep: 3}, runs: ages(1, 2, 3, 4), want: []string{"4"}},
		"minKeep alone deletes nothing": {policy: &backupv1alpha1.RetentionPolicy{MinKeep: 1}, runs: ages(1, 2)},
		"daily keeps the newest of a day": {policy: &backupv1alpha1.RetentionPolicy{Daily: 2},
			runs: []Run{{"a", now, false}, {"b", now.Add(-time.Hour), false}, {"c", now.AddDate(0, 0, -3), false}, {"d", now.AddDate(0, 0, -4), false}}, want: []string{"d", "b"}},
		"weekly":                             {policy: &backupv1alpha1.RetentionPolicy{Weekly: 2}, runs: ages(0, 1, 7, 8, 14), want: []string{"14", "8", "1"}},
		"monthly and yearly":                 {policy: &backupv1alpha1.RetentionPolicy{Monthly: 1, Yearly: 2}, runs: ages(0, 40, 100, 110), want: []string{"110", "40"}},
		"a time in the future counts as now": {retention: "1d", runs: append(ages(0, 1, 2), Run{"future", now.AddDate(9, 0, 0), false}), want: []string{"2"}},
		"the verified one is kept, and replaces no other": {retention: "2c", runs: append(ages(1, 3, 5, 7), Run{"verified", now.AddDate(0, 0, -6), true}),
			want: []string{"7", "5"}},
	} {
		rule, err := Parse(c.retention, c.policy)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := rule.Expired(c.runs, now); !slices.Equal(got, c.want) {
			t.Errorf("%s: deletes %v, want %v", name, got, c.want)
		}
	}
}

func TestParse_invalid(t *testing.T) {
	for _, text := range []string{"0d", "-1d", "30", "d", "30 d", "99999d", "1.5d", "30D"} {
		if _, err := Parse(text, nil); err == nil {
			t.Errorf("%q: accepted", text)
		}
	}
	if _, err := Parse("1d", &backupv1alpha1.RetentionPolicy{}); err == nil {
		t.Error("both fields: accepted")
	}
}

// FuzzExpired: never fewer than minKeep remain, the newest and the verified ones remain, no name is invented, what expired stays expired (so one call deletes
// all that repeated calls would), and a backup that has expired does not come back later.
func FuzzExpired(f *testing.F) {
	f.Add("30d", uint8(0), uint8(0), uint8(0), uint8(0), uint8(0), uint8(0), int64(0), []byte{1, 2, 3, 200, 200})
	f.Add("2c", uint8(0), uint8(0), uint8(0), uint8(0), uint8(0), uint8(0), int64(1000), []byte{255, 0, 7})
	f.Add("", uint8(1), uint8(2), uint8(2), uint8(2), uint8(1), uint8(3), int64(86400*40), []byte{1, 2, 30, 90, 200, 250, 251})
	f.Add("1m", uint8(0), uint8(0), uint8(0), uint8(0), uint8(0), uint8(0), int64(-1), []byte{30, 31, 32})
	f.Fuzz(func(t *testing.T, text string, last, daily, weekly, monthly, yearly, minKeep uint8, later int64, days []byte) {
		var policy *backupv1alpha1.RetentionPolicy
		if text == "" {
			policy = &backupv1alpha1.RetentionPolicy{KeepLast: int32(last), Daily: int32(daily), Weekly: int32(weekly), Monthly: int32(monthly),
				Yearly: int32(yearly), MinKeep: int32(minKeep)}
		}
		rule, err := Parse(text, policy)
		if err != nil {
			return
		}
		runs := make([]Run, len(days))
		names := map[string]bool{}
		for i, d := range days { // some are in the future
			runs[i] = Run{Name: fmt.Sprint(i), Completed: now.Add(-time.Duration(int(d)-20) * 17 * time.Hour), Keep: d%8 == 3}
			names[runs[i].Name] = true
		}
		expired := rule.Expired(runs, now)
		rest := slices.DeleteFunc(slices.Clone(runs), func(r Run) bool { return slices.Contains(expired, r.Name) })
		if len(rest)+len(expired) != len(runs) || len(rest) < min(len(runs), max(1, int(minKeep)*boolInt(policy != nil))) {
			t.Fatalf("%d of %d remain, %d expired", len(rest), len(runs), len(expired))
		}
		wantKept(t, runs, rest, expired)
		if again := rule.Expired(rest, now); len(again) > 0 {
			t.Fatalf("a second call deletes %v more", again)
		}
		if later %= 1 << 32; later < 0 || policy != nil && (daily|weekly|monthly|yearly) > 0 {
			return // periods of times in the future are merged
		}
		for _, name := range expired {
			if !slices.Contains(rule.Expired(runs, now.Add(time.Duration(later)*time.Second)), name) {
				t.Fatalf("%s expired, and not %d s later", name, later)
			}
		}
	})
}

// wantKept: neither the newest nor a verified run expired.
func wantKept(t *testing.T, runs, rest []Run, expired []string) {
	t.Helper()
	for _, r := range runs {
		gone := slices.Contains(expired, r.Name)
		if gone && !slices.ContainsFunc(rest, func(k Run) bool { return !k.Completed.Before(r.Completed) }) {
			t.Fatalf("the newest, %s, expired", r.Name)
		}
		if gone && r.Keep {
			t.Fatalf("%s is verified, and expired", r.Name)
		}
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
