package rollout

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // the image has no time zone database

	"github.com/robfig/cron/v3"
)

// parser accepts the schedule format of a CronJob: exactly five fields. The library has had no release since 2020, but it is the one of
// Kubernetes' CronJob controller, so that a window opens when a CronJob would start, also when clocks change. Only its parser and Next
// are used. The inputs that make the parser panic, time zones and descriptors, are rejected before.
var parser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// Window is a recurring span of time.
type Window struct {
	schedule cron.Schedule
	duration time.Duration
	location *time.Location
}

// ParseWindow parses a window that opens at the times of schedule (five fields, as of a CronJob) in timeZone (an IANA name; UTC if empty)
// and stays open for duration.
func ParseWindow(schedule string, duration time.Duration, timeZone string) (*Window, error) {
	if strings.ContainsAny(schedule, "=@") { // time zones and descriptors: some make the parser panic
		return nil, fmt.Errorf("schedule %q of the window: give five fields, as in \"0 2 * * *\", and the time zone in timeZone", schedule)
	}
	parsed, err := parser.Parse(schedule)
	if err != nil {
		return nil, fmt.Errorf("schedule %q of the window: %w", schedule, err)
	}
	if duration <= 0 {
		return nil, errors.New("duration of the window: must be more than 0")
	}
	if timeZone == "Local" {
		return nil, errors.New(`timeZone "Local" of the window: give an IANA name, such as "Europe/Berlin"`)
	}
	location, err := time.LoadLocation(timeZone)
	if err != nil {
		return nil, fmt.Errorf("timeZone %q of the window: %w", timeZone, err)
	}
	return &Window{schedule: parsed, duration: duration, location: location}, nil
}

// open reports whether now is inside the window, and otherwise how long until it opens; 0 if it never does.
func (w *Window) open(now time.Time) (bool, time.Duration) {
	if w == nil {
		return true, 0
	}
	now = now.In(w.location)
	opened := w.schedule.Next(now.Add(-w.duration))
	switch {
	case opened.IsZero():
		return false, 0
	case opened.After(now):
		return false, opened.Sub(now)
	default:
		return true, 0
	}
}
