package agent

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/election"
	"github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

const (
	// measurePause is the time between two looks at the volume and the certificates.
	measurePause = 10 * time.Second
	// measureFull is that while the volume is full.
	measureFull = time.Second
	// fullDisk is what is left of a volume, in bytes, when it counts as full: PostgreSQL stops before it is zero.
	fullDisk = 1 << 20
	// usualSegment is what a segment of the log has in bytes unless it was made otherwise.
	usualSegment = 16 << 20
)

// short says that a volume that was measured has less than that many bytes left.
func short(disk server.Disk, bytes int64) bool { return disk.Size > 0 && disk.Free < bytes }

// measure looks at the volume, and at where the log on it begins, and takes over certificates that were renewed.
func (a *Agent) measure(epoch int, segment int64) {
	disk, err := a.server.Disk()
	var oldest wal.LSN
	if segment > 0 {
		oldest, _ = a.server.OldestWAL(segment) // there may be no log yet, or none any more
	}
	renewed, failure := a.tls.Copy()
	if err := errors.Join(err, failure); err != nil {
		a.log.Warn("volume and certificates", "error", err.Error())
	}
	useless := ""
	if failure != nil {
		useless = oneLine(failure.Error())
	}
	a.post(func() {
		if err == nil {
			a.disk = disk
		}
		if oldest > 0 && epoch == a.epoch && a.own.Process == election.Up {
			a.own.Oldest = uint64(oldest)
		}
		a.measured()
		a.useless = useless
		if renewed && a.process != nil {
			a.log.Info("certificates were renewed")
			if err := a.process.Reload(); err != nil {
				a.log.Warn("reload", "error", err.Error())
			}
		}
	})
}

// keepSlots has a standby keep what the other instances need if it becomes the primary: a slot for each, at what that instance
// has. max_slot_wal_keep_size bounds what is kept for one that says nothing.
func (a *Agent) keepSlots(wanted []string, positions map[string]wal.LSN) {
	ctx, cancel := context.WithTimeout(a.life, settleTime)
	defer cancel()
	changed, err := a.keeping.EnsureSlots(ctx, wanted)
	if err == nil {
		err = a.keeping.AdvanceSlots(ctx, positions)
	}
	if err != nil {
		a.log.Debug("slots of a standby", "error", err.Error())
	}
	if len(changed) > 0 {
		a.log.Info("slots", "changed", changed)
	}
	a.post(func() {
		wait := choresPause
		if a.own.Role == election.Primary { // by now: it has others to look after
			wait = 0
		}
		a.chores.over(now() + wait)
	})
}

// slotPositions is what each other instance has, by its slot. One on another timeline may have to come back to less.
func slotPositions(cluster string, own *election.Server, peers map[string]election.Answer) map[string]wal.LSN {
	out := map[string]wal.LSN{}
	for name, p := range peers {
		ordinal, ok := agentapi.Ordinal(cluster, name)
		if ok && p.State.Data == election.Usable && p.State.SystemID == own.SystemID && p.State.Position.Timeline == own.Position.Timeline {
			out[config.SlotName(ordinal)] = wal.LSN(p.State.Position.LSN)
		}
	}
	return out
}

// measured notes whether the volume is full. Of a primary that runs, its heartbeat tells.
func (a *Agent) measured() {
	switch {
	case a.own.Process == election.Down:
		a.own.FullDisk = short(a.disk, cmp.Or(a.segment, usualSegment)+fullDisk)
	case a.own.Role == election.Standby:
		a.own.FullDisk = short(a.disk, fullDisk)
	}
	wait := measurePause
	if a.own.FullDisk {
		wait = measureFull
	}
	a.measuring.over(now() + wait)
}
