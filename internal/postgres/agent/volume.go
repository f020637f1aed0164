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
	// volumeInterval is the time between two looks at the volume and the certificates.
	volumeInterval = 10 * time.Second
	// volumeIntervalFull is that while the volume is full.
	volumeIntervalFull = time.Second
	// fullDisk is what is left of a volume, in bytes, when it counts as full: PostgreSQL stops before it is zero.
	fullDisk = 1 << 20
	// defaultWALSegment is what a segment of the log has in bytes unless it was made otherwise.
	defaultWALSegment = 16 << 20
)

// lowSpace says that a volume that was measured has less than that many bytes left.
func lowSpace(disk server.Disk, bytes int64) bool { return disk.Size > 0 && disk.Free < bytes }

// checkVolume looks at the volume, and at where the log on it begins, and takes over certificates that were renewed.
func (a *Agent) checkVolume(epoch int, segment int64) {
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
	a.enqueue(func() {
		if err == nil {
			a.disk = disk
		}
		if oldest > 0 && epoch == a.epoch && a.own.Process == election.Up {
			a.own.OldestWAL = uint64(oldest)
		}
		a.recordVolume()
		a.tlsError = useless
		if renewed && a.process != nil {
			a.log.Info("certificates were renewed")
			if err := a.process.Reload(); err != nil {
				a.log.Warn("reload", "error", err.Error())
			}
		}
	})
}

// maintainStandbySlots has a standby keep what the other instances need if it becomes the primary: a slot for each, at what that instance
// has. max_slot_wal_keep_size bounds what is kept for one that says nothing.
func (a *Agent) maintainStandbySlots(wanted []string, positions map[string]wal.LSN) {
	ctx, cancel := context.WithTimeout(a.ctx, commandTimeout)
	defer cancel()
	changed, err := a.maintenanceConn.EnsureSlots(ctx, wanted)
	if err == nil {
		err = a.maintenanceConn.AdvanceSlots(ctx, positions)
	}
	if err != nil {
		a.log.Debug("slots of a standby", "error", err.Error())
	}
	if len(changed) > 0 {
		a.log.Info("slots", "changed", changed)
	}
	a.enqueue(func() {
		wait := maintenanceInterval
		if a.own.Role == election.Primary { // by now: it has others to look after
			wait = 0
		}
		a.maintenance.over(now() + wait)
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

// recordVolume notes whether the volume is full. Of a primary that runs, its heartbeat tells.
func (a *Agent) recordVolume() {
	switch {
	case a.own.Process == election.Down:
		a.own.FullDisk = lowSpace(a.disk, cmp.Or(a.walSegmentSize, defaultWALSegment)+fullDisk)
	case a.own.Role == election.Standby:
		a.own.FullDisk = lowSpace(a.disk, fullDisk)
	}
	wait := volumeInterval
	if a.own.FullDisk {
		wait = volumeIntervalFull
	}
	a.volumeCheck.over(now() + wait)
}
