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
	// volumeInterval is the time between two checks of the volume and the certificates.
	volumeInterval = 10 * time.Second
	// volumeIntervalFull is the same while the volume is full.
	volumeIntervalFull = time.Second
	// fullDisk is how many bytes a volume has left when it counts as full. PostgreSQL stops before 0.
	fullDisk = 1 << 20
	// defaultWALSegment is the default size of a WAL segment in bytes.
	defaultWALSegment = 16 << 20
)

// lowSpace reports that a measured volume has less than that many bytes left.
func lowSpace(disk server.Disk, bytes int64) bool { return disk.Size > 0 && disk.Free < bytes }

// checkVolume measures the volume, finds where its WAL begins, and loads renewed certificates.
func (a *Agent) checkVolume(epoch int, segment int64) {
	disk, err := a.server.Disk()
	var oldest wal.LSN
	if segment > 0 {
		oldest, _ = a.server.OldestWAL(segment) // there may be no WAL
	}
	renewed, failure := a.tls.Copy()
	if err := errors.Join(err, failure); err != nil {
		a.log.Warn("failed to check volume and certificates", "error", err.Error())
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
			a.log.Info("loaded renewed certificates")
			if err := a.process.Reload(); err != nil {
				a.log.Warn("failed to reload configuration", "error", err.Error())
			}
		}
	})
}

// maintainStandbySlots makes a standby keep the WAL that the other instances need if it becomes the primary: a slot for each, at
// the position of that instance. max_slot_wal_keep_size bounds what is kept for an instance that does not answer.
func (a *Agent) maintainStandbySlots(wanted []string, positions map[string]wal.LSN) {
	ctx, cancel := context.WithTimeout(a.ctx, commandTimeout)
	defer cancel()
	changed, err := a.maintenanceConn.EnsureSlots(ctx, wanted)
	if err == nil {
		err = a.maintenanceConn.AdvanceSlots(ctx, positions)
	}
	if err != nil {
		a.log.Debug("failed to maintain replication slots", "error", err.Error())
	}
	if len(changed) > 0 {
		a.log.Info("updated replication slots", "changed", changed)
	}
	a.enqueue(func() {
		wait := maintenanceInterval
		if a.own.Role == election.Primary { // it has been promoted meanwhile: its standbys need slots now
			wait = 0
		}
		a.maintenance.over(now() + wait)
	})
}

// slotPositions are the positions of the other instances, by slot. An instance on another timeline may have to go back further.
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

// recordVolume records whether the volume is full. For a running primary its heartbeat reports that.
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
