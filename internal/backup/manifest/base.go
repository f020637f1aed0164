package manifest

import (
	"github.com/fettle-dev/fettle/internal/backup/recovery"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

// Base returns the base backup as package recovery knows it. ok is false if the backup is not Physical.
func (m *Manifest) Base() (b recovery.Base, ok bool) {
	p := m.Physical
	if p == nil {
		return b, false
	}
	start, errStart := wal.ParseLSN(p.StartLSN)
	end, errEnd := wal.ParseLSN(p.EndLSN)
	return recovery.Base{
		Run: m.Run, SystemID: p.SystemIdentifier, Completed: m.Completed, Timeline: wal.Timeline(p.Timeline), Start: start, End: end,
		SegmentSize: p.WALSegmentSize,
	}, errStart == nil && errEnd == nil
}
