// Package schedule decides at which times a Backup runs. It is pure.
package schedule

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/bits"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // the image has no time zone database

	"github.com/robfig/cron/v3"
)

// MinInterval is the least time between two slots of a schedule. More frequent runs would fill stores and history faster than
// anyone can look at them.
const MinInterval = 5 * time.Minute

// maxSkipped bounds the search for a slot after those in the hour that does not exist when the clocks go forward.
const maxSkipped = 128

// SlotFormat is the form of a slot in the name of its run, in UTC.
const SlotFormat = "200601021504"

// macros are the accepted descriptors. The parser also accepts "@every 1s", and panics on some other texts with '@'.
var macros = []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}

// parser accepts the format of a CronJob: five fields, or one of macros.
var parser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// Schedule is a parsed cron expression in a time zone.
type Schedule struct {
	cron     *cron.SpecSchedule
	location *time.Location
}

// Parse parses spec.schedule and spec.timeZone. The errors say which of the two is wrong.
func Parse(expression, timeZone string) (*Schedule, error) {
	if strings.Contains(expression, "@") && !slices.Contains(macros, expression) || strings.Contains(expression, "=") {
		return nil, fmt.Errorf("schedule: %q must be five fields such as \"0 2 * * *\", or one of %s; set the time zone in timeZone",
			expression, strings.Join(macros, ", "))
	}
	parsed, err := parser.Parse(expression)
	if err != nil {
		return nil, fmt.Errorf("schedule: %q: %w", expression, err)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("schedule: %q must be a cron expression", expression)
	}
	location, err := load(timeZone)
	if err != nil {
		return nil, err
	}
	if spec.Next(time.Unix(0, 0).UTC()).IsZero() {
		return nil, fmt.Errorf("schedule: %q never comes: no month has such a day", expression)
	}
	if shortest := interval(spec); shortest < MinInterval {
		return nil, fmt.Errorf("schedule: %q comes every %s, which is more often than every %s: choose a longer interval", expression, shortest, MinInterval)
	}
	return &Schedule{cron: spec, location: location}, nil
}

func load(timeZone string) (*time.Location, error) {
	location, err := time.LoadLocation(timeZone)
	if err == nil && timeZone == "Local" {
		err = errors.New("is the zone of the operator's pod")
	}
	if err != nil {
		return nil, fmt.Errorf("timeZone: %q must be a name of the time zone database, such as Europe/Berlin: %w", timeZone, err)
	}
	return location, nil
}

// interval is the least time between two slots on the same day or around midnight, at most an hour.
func interval(s *cron.SpecSchedule) time.Duration {
	const minutes, hours = 60, 24
	set := func(field uint64, n int) []int {
		var values []int
		for v := range n {
			if field&(1<<v) != 0 {
				values = append(values, v)
			}
		}
		return values
	}
	at, shortest := set(s.Minute, minutes), minutes
	for i := 1; i < len(at); i++ {
		shortest = min(shortest, at[i]-at[i-1])
	}
	adjacent := s.Hour & (s.Hour<<1 | s.Hour>>(hours-1)&1) // the bit above the hours tells of '*'
	if bits.OnesCount64(adjacent&(1<<hours-1)) > 0 {
		shortest = min(shortest, at[0]+minutes-at[len(at)-1])
	}
	return time.Duration(shortest) * time.Minute
}

// Next returns the first slot after a time, in UTC.
//
// A slot in the hour that is left out when the clocks go forward is used as well, an hour earlier or later: the library alone would leave
// out the night. In the hour that comes twice, the slot is used twice.
func (s *Schedule) Next(after time.Time) time.Time {
	absolute := s.cron.Next(after.In(s.location))
	local := after.In(s.location)
	wall := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), local.Second(), local.Nanosecond(), time.UTC)
	for range maxSkipped {
		if wall = s.cron.Next(wall); wall.IsZero() {
			break
		}
		at := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), 0, 0, s.location)
		if at.After(after) {
			if absolute.IsZero() || at.Before(absolute) {
				absolute = at
			}
			break
		}
	}
	return absolute.UTC()
}

// Timing is when a Backup may start runs.
type Timing struct {
	// Jitter is the constant delay of each run after its slot, see [Jitter].
	Jitter time.Duration
	// Deadline is how long after its time a run may still start.
	Deadline time.Duration
	// After is the last slot that is not to be used any more: that of the last run, or the creation of the Backup.
	After time.Time
}

// Due returns the slot to start a run for now, zero if there is none, and when the next run starts, zero if never. Of several missed
// slots, the last one is due.
func (s *Schedule) Due(t Timing, now time.Time) (slot, next time.Time) {
	from := t.After
	if oldest := now.Add(-t.Deadline - t.Jitter - time.Second); oldest.After(from) {
		from = oldest
	}
	for at := s.Next(from); !at.IsZero(); at = s.Next(at) {
		start := at.Add(t.Jitter)
		if start.After(now) {
			return slot, start
		}
		if now.Sub(start) <= t.Deadline {
			slot = at
		}
	}
	return slot, time.Time{}
}

// Interval returns the time between the next two slots, for the alert on a Backup that stopped.
func (s *Schedule) Interval(now time.Time) time.Duration {
	first := s.Next(now)
	return s.Next(first).Sub(first)
}

// Jitter returns the delay of an object's runs: a constant number of seconds from 0 to most, derived from its UID.
func Jitter(uid string, most int32) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(uid)) // never fails
	return time.Duration(h.Sum64()%(uint64(most)+1)) * time.Second
}

// RunName is the name of the run for a slot. It is the same whenever and however often it is asked for, so that no slot runs twice.
func RunName(backup string, slot time.Time) string {
	return backup + "-" + slot.UTC().Format(SlotFormat)
}
