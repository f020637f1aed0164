// Package retention decides which backups are deleted. It is pure: the caller lists and deletes.
package retention

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
)

// Run is a complete backup.
type Run struct {
	Name      string
	Completed time.Time
	// Keep says that it is not deleted, whatever the rule is: it was verified, or may be at this time.
	Keep bool
}

// Rule says which backups are kept. The zero Rule keeps all.
type Rule struct {
	// limited is false if all are kept.
	limited bool
	// minKeep newest backups are never deleted; at least 1.
	minKeep int
	// last newest backups are kept.
	last int
	// oldest returns the time from which on backups are kept; nil without such a rule.
	oldest func(now time.Time) time.Time
	// periods keep the newest backup in each of the last count periods that have one.
	periods []period
}

type period struct {
	count int
	// key is the same for all times of a period.
	key func(time.Time) string
}

var pattern = regexp.MustCompile(`^([1-9][0-9]{0,3})([hdwmyc])$`)

const daysPerWeek = 7

// Parse reads spec.retention, such as "30d" or "10c", and spec.retentionPolicy. At most one may be set; without any, all backups are kept.
func Parse(retention string, policy *backupv1alpha1.RetentionPolicy) (Rule, error) {
	switch {
	case retention != "" && policy != nil:
		return Rule{}, fmt.Errorf("retention: must not be set beside retentionPolicy")
	case policy != nil:
		return parsePolicy(*policy), nil
	case retention == "":
		return Rule{minKeep: 1}, nil
	}
	match := pattern.FindStringSubmatch(retention)
	if match == nil {
		return Rule{}, fmt.Errorf("retention: %q must be a number with a unit, such as 30d (h, d, w, m or y), or a number of backups such as 10c", retention)
	}
	n, err := strconv.Atoi(match[1])
	if err != nil {
		return Rule{}, fmt.Errorf("retention: %w", err)
	}
	r := Rule{limited: true, minKeep: 1}
	switch match[2] {
	case "c":
		r.last = n
	case "h":
		r.oldest = func(now time.Time) time.Time { return now.Add(-time.Duration(n) * time.Hour) }
	case "d":
		r.oldest = func(now time.Time) time.Time { return now.AddDate(0, 0, -n) }
	case "w":
		r.oldest = func(now time.Time) time.Time { return now.AddDate(0, 0, -daysPerWeek*n) }
	case "m":
		r.oldest = func(now time.Time) time.Time { return monthsBefore(now, n) }
	case "y":
		r.oldest = func(now time.Time) time.Time { return monthsBefore(now, n*int(time.December)) }
	}
	return r, nil
}

// monthsBefore returns the same day some months ago, or the last day of that month if it is shorter. AddDate would go on into the next
// month, so that less were kept.
func monthsBefore(now time.Time, months int) time.Time {
	first := time.Date(now.Year(), now.Month()-time.Month(months), 1, now.Hour(), now.Minute(), now.Second(), now.Nanosecond(), now.Location())
	last := first.AddDate(0, 1, -1).Day()
	return first.AddDate(0, 0, min(now.Day(), last)-1)
}

func parsePolicy(p backupv1alpha1.RetentionPolicy) Rule {
	r := Rule{minKeep: max(1, int(p.MinKeep)), last: int(p.KeepLast), periods: []period{
		{int(p.Daily), func(t time.Time) string { return t.Format(time.DateOnly) }},
		{int(p.Weekly), func(t time.Time) string {
			year, week := t.ISOWeek()
			return fmt.Sprint(year, " ", week)
		}},
		{int(p.Monthly), func(t time.Time) string { return t.Format("2006-01") }},
		{int(p.Yearly), func(t time.Time) string { return t.Format("2006") }},
	}}
	// A policy with minKeep alone names no backup to keep beyond; to delete all others would be a surprise.
	r.limited = p.KeepLast > 0 || p.Daily > 0 || p.Weekly > 0 || p.Monthly > 0 || p.Yearly > 0
	return r
}

// Expired returns the names of the backups to delete, the oldest first. Of backups with a time in the future, from a clock that was
// wrong, each counts as made now.
func (r Rule) Expired(runs []Run, now time.Time) []string {
	if !r.limited {
		return nil
	}
	now = now.UTC()
	newest := slices.Clone(runs)
	slices.SortFunc(newest, func(a, b Run) int {
		if order := b.Completed.Compare(a.Completed); order != 0 {
			return order
		}
		return strings.Compare(b.Name, a.Name)
	})
	periods := make([]map[string]bool, len(r.periods))
	for i := range periods {
		periods[i] = map[string]bool{}
	}
	var expired []string
	for i, run := range newest {
		completed := run.Completed.UTC()
		if completed.After(now) {
			completed = now
		}
		keep := run.Keep || i < max(1, r.minKeep) || i < r.last || r.oldest != nil && !completed.Before(r.oldest(now))
		for j, p := range r.periods {
			if key := p.key(completed); !periods[j][key] && len(periods[j]) < p.count {
				periods[j][key], keep = true, true
			}
		}
		if !keep {
			expired = append(expired, run.Name)
		}
	}
	slices.Reverse(expired)
	return expired
}
