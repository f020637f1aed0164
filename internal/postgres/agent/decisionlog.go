package agent

import (
	"log/slog"
	"slices"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/election"
)

// undecided is the status of an agent that cannot decide anything yet.
func (a *Agent) undecided() election.Decision {
	switch {
	case !a.booted && a.lastError != "":
		return election.Decision{Code: election.CodeWaitingForPreviousRun, Reason: "waiting for processes of the previous run to exit: " + a.lastError}
	case !a.booted:
		return election.Decision{Code: election.CodeInspectingDataDir, Reason: "inspecting the data directory"}
	}
	return election.Decision{Code: election.CodeWaitingForObject, Reason: "waiting for PostgreSQL " + a.options.Cluster + " from the API server"}
}

// logDecision logs a decision that differs from the last one, once it is acted upon.
func (a *Agent) logDecision(d election.Decision, at time.Duration) {
	name, fields := actionFields(d.Action)
	current := name + " " + d.Reason
	if current == a.lastDecision || a.isDeferred(d.Action, at) {
		return
	}
	a.lastDecision = current
	level := slog.LevelInfo
	switch d.Action.(type) {
	case election.Wait:
		level = a.waitLevel(d)
	case election.Renew:
		level = slog.LevelDebug
	default:
		a.recentWaits = nil
	}
	a.log.Log(a.ctx, level, d.Reason, append([]any{"code", string(d.Code), "action", name}, fields...)...)
}

// brief are the codes of waits that follow an action in the log and end within moments.
var brief = []election.Code{
	election.CodeIdle, election.CodeWaitingForPostgreSQL, election.CodeWaitingForDataTask, election.CodeWaitingForLeaseWrite, election.CodeWaitingForRenewal,
}

// waitLevel is the level of a wait in the log: a primary has the same two or three reasons at each renewal.
func (a *Agent) waitLevel(d election.Decision) slog.Level {
	switch {
	case slices.Contains(brief, d.Code), slices.Contains(a.recentWaits, d.Reason):
		return slog.LevelDebug
	case d.ManualIntervention:
		a.recentWaits = append(a.recentWaits[max(0, len(a.recentWaits)-3):], d.Reason)
		return slog.LevelWarn
	}
	a.recentWaits = append(a.recentWaits[max(0, len(a.recentWaits)-3):], d.Reason)
	return slog.LevelInfo
}

// actionFields returns the name of an action and its fields for the log.
func actionFields(action election.Action) (name string, fields []any) {
	switch action := action.(type) {
	case election.Acquire:
		return "acquire-lease", []any{"timeline", action.Lease.Timeline, "instances", action.Lease.Instances}
	case election.Renew:
		return "renew-lease", nil
	case election.Release:
		return "release-lease", []any{"preferred", action.Lease.Preferred}
	case election.RequestPromises:
		return "request-promises", []any{"peers", action.Peers}
	case election.StartStandby:
		return "start-standby", []any{"upstream", action.Upstream}
	case election.Follow:
		return "follow", []any{"upstream", action.Upstream}
	case election.StartPrimary:
		return "start-primary", nil
	case election.Promote:
		return "promote", []any{"timeline", action.After + 1}
	case election.Checkpoint:
		return "checkpoint", nil
	case election.Stop:
		return "stop", []any{"mode", action.Mode.String(), "planned", action.Planned}
	case election.SetSync:
		return "set-synchronous-standbys", syncFields(action.Quorum)
	case election.Exit:
		return "exit", nil
	}
	return dataActionFields(action)
}

// dataActionFields is actionFields of an action on the data directory.
func dataActionFields(action election.Action) (name string, fields []any) {
	switch action := action.(type) {
	case election.InitDB:
		return "initdb", nil
	case election.Clone:
		return "clone", []any{"source", action.Source}
	case election.Rewind:
		return "rewind", []any{"source", action.Source}
	case election.Reclone:
		return "reclone", []any{"source", action.Source}
	case election.RecloneKeepingData:
		return "reclone-keeping-data", []any{"source", action.Source}
	case election.InspectWAL:
		return "inspect-wal", nil
	}
	return "wait", nil
}

func syncFields(q *election.Quorum) []any {
	if q == nil {
		return []any{"standbys", []string{}}
	}
	return []any{"number", q.Number, "standbys", q.Names}
}
