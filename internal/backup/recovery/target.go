package recovery

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

// Target is where replay stops. The zero value is the end of the archived WAL.
type Target struct {
	Time      time.Time
	LSN       wal.LSN
	XID, Name string
	Immediate bool
	// Run is the base backup to start from; "" for the one that is best.
	Run string
	// Timeline is the one to follow; 0 for the one that is best.
	Timeline wal.Timeline
}

// ParseTarget reads the target of a spec.
func ParseTarget(spec *databasev1alpha1.PostgreSQLRecovery) (Target, error) {
	t := Target{XID: spec.TargetXID, Name: spec.TargetName, Immediate: spec.TargetImmediate, Timeline: wal.Timeline(max(spec.TargetTimeline, 0))} //nolint:gosec // not below 0
	if spec.Location != nil {
		t.Run = spec.Location.Run
	}
	var err error
	if spec.TargetTime != "" {
		if t.Time, err = time.Parse(time.RFC3339Nano, spec.TargetTime); err != nil {
			return t, fmt.Errorf("targetTime: %w", err)
		}
	}
	if spec.TargetLSN != "" {
		if t.LSN, err = wal.ParseLSN(spec.TargetLSN); err != nil {
			return t, fmt.Errorf("targetLSN: %w", err)
		}
	}
	return t, nil
}

// String describes the target in messages.
func (t Target) String() string {
	switch {
	case !t.Time.IsZero():
		return "time " + t.Time.UTC().Format(time.RFC3339Nano)
	case t.LSN != 0:
		return "LSN " + t.LSN.String()
	case t.XID != "":
		return "transaction " + t.XID
	case t.Name != "":
		return "restore point " + strconv.Quote(t.Name)
	case t.Immediate:
		return "the end of the base backup"
	}
	return "the end of the archived WAL"
}

// Settings are the lines of postgresql.conf that make a server replay to the target and then promote itself. A server with a
// target that it does not find exits with an error. The values override earlier lines. restoreCommand is the command with %f
// and %p.
func (p Plan) Settings(target Target, restoreCommand string) string {
	settings := []struct{ name, value string }{
		{"restore_command", restoreCommand},
		{"recovery_target_timeline", strconv.FormatUint(uint64(p.Timeline), 10)},
		{"recovery_target_action", "promote"},
		{"recovery_target_inclusive", "on"},
	}
	add := func(name, value string) { settings = append(settings, struct{ name, value string }{name, value}) }
	switch {
	case !target.Time.IsZero():
		add("recovery_target_time", target.Time.UTC().Format("2006-01-02 15:04:05.999999-07"))
	case target.LSN != 0:
		add("recovery_target_lsn", target.LSN.String())
	case target.XID != "":
		add("recovery_target_xid", target.XID)
	case target.Name != "":
		add("recovery_target_name", target.Name)
	case target.Immediate:
		add("recovery_target", "immediate")
	}
	var out strings.Builder
	for _, s := range settings {
		// The same quotes as in package config. No value has a line break: the API server validates names, and the rest is ours.
		fmt.Fprintf(&out, "%s = '%s'\n", s.name, strings.NewReplacer(`'`, `''`, `\`, `\\`).Replace(s.value))
	}
	return out.String()
}
