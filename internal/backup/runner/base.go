package runner

import (
	"context"
	"errors"
	"io"
	"regexp"
	"slices"
	"time"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/archive"
	"github.com/fettle-dev/fettle/internal/backup/manifest"
	"github.com/fettle-dev/fettle/internal/backup/recovery"
	"github.com/fettle-dev/fettle/internal/backup/walarchive"
)

const (
	// walWait is how long the WAL of a base backup may take to be archived. The primary switches to a new segment each minute.
	walWait = 15 * time.Minute
	// gapWait is how long WAL may be missing after later WAL was archived. Uploads overtake each other.
	gapWait = 20 * time.Second
	// walPoll and walPollMax are the time between two looks for it.
	walPoll, walPollMax = 500 * time.Millisecond, 15 * time.Second
	pgBasebackup        = "pg_basebackup"
)

// pg_basebackup has no other way to tell it. It runs with LC_ALL=C.
var tablespaces = regexp.MustCompile(`can only write single tablespace`)

// copyFiles stores a base backup, without WAL, of a PostgreSQL of Fettle: of a standby, if one answers. Then it waits until all WAL
// is archived without which the copy cannot be restored. Nothing of the copy is checked beyond its structure: pages have
// checksums, and the stored object has a SHA-256.
func (r *run) copyFiles(ctx context.Context, m *manifest.Manifest, o archive.Options) error {
	server := &r.config.Backup.Server
	err := r.copyInstance(ctx, m, o, append(slices.Clone(server.Replicas), server.Host)...)
	if errors.Is(err, errWALGone) {
		// The copy of a standby begins at its last restart point, which may be from before WAL was archived. That of the primary begins
		// with a checkpoint.
		r.Log.Info("copying the primary instead", "cause", err)
		err = r.copyInstance(ctx, m, o, server.Host)
	}
	return err
}

// errWALGone is a base backup that needs WAL from before WAL was archived.
var errWALGone = errors.New("the archive has later WAL than the base backup needs, and lacks some of that")

func (r *run) copyInstance(ctx context.Context, m *manifest.Manifest, o archive.Options, hosts ...string) error {
	from, err := r.newReplication(ctx, hosts...)
	if err != nil {
		return err
	}
	defer from.remove()
	before, err := from.identify(ctx)
	if err != nil {
		return err
	}
	if _, err := find(pgBasebackup); err != nil {
		return err
	}
	m.ServerVersion, m.Programs = before.version, map[string]string{pgBasebackup: before.version}
	stop := r.progress.Start(ctx, 0)
	defer stop()
	defer r.estimate(ctx, from)()
	copied := &baseBackup{}
	part, err := r.upload(ctx, "base.tar", o, func(ctx context.Context, out io.Writer) error {
		return r.execute(ctx, from.baseBackup("--label="+r.config.Object), out)
	}, copied.read)
	if err != nil {
		return baseFailure(err)
	}
	after, err := from.identify(ctx)
	if err != nil {
		return err
	}
	m.Parts, m.Completed = []manifest.Part{part}, time.Now().UTC()
	if m.Physical, err = copied.describe(before, after); err != nil {
		return err
	}
	return r.waitForWAL(ctx, m)
}

// baseFailure gives a failure of pg_basebackup its reason.
func baseFailure(err error) error {
	failed := &programError{}
	switch {
	case !errors.As(err, &failed):
		return err
	case tablespaces.MatchString(failed.tail):
		return refuse(backupv1alpha1.ReasonBackupRejected,
			"the PostgreSQL has tablespaces, which Physical backups do not support: move their objects to pg_default and drop them, or use Logical backups")
	}
	return fail(backupv1alpha1.ReasonDumpFailed, "base backup: %w", failed)
}

// estimate sets the total of the progress when the server has estimated it, in the background. The returned function ends that. Without
// an estimate, only the copied bytes are known.
func (r *run) estimate(ctx context.Context, from *replication) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		total, err := from.backupSize(ctx)
		if err == nil {
			r.progress.SetTotal(total)
		} else if ctx.Err() == nil {
			r.Log.Info("the size of the base backup is not known", "cause", err)
		}
	}()
	return func() { cancel(); <-done }
}

// describe returns what recovery needs to know. A server that began another timeline during the copy may have changed its
// history: that copy is not used.
func (b *baseBackup) describe(before, after identity) (*manifest.Physical, error) {
	if before.systemID != after.systemID || after.timeline != b.label.timeline {
		return nil, fail(backupv1alpha1.ReasonDumpFailed, "the primary changed during the base backup, from timeline %d to %d: it is repeated",
			b.label.timeline, after.timeline)
	}
	return &manifest.Physical{
		SystemIdentifier: after.systemID, Timeline: uint32(b.label.timeline), StartLSN: b.label.start.String(), EndLSN: b.end.String(),
		StartWAL: b.label.segment, WALSegmentSize: after.segmentSize,
	}, nil
}

// waitForWAL waits until a recovery to the end of the copy finds all WAL in the archive.
func (r *run) waitForWAL(ctx context.Context, m *manifest.Manifest) error {
	base, ok := m.Base()
	if !ok {
		return fail(backupv1alpha1.ReasonDumpInvalid, "the base backup has no valid positions: %+v", *m.Physical)
	}
	archived := walarchive.New(r.store, base.SystemID)
	last := recovery.SegmentAt(base.Timeline, base.End, base.SegmentSize)
	began := time.Now()
	for pause := walPoll; ; pause = min(2*pause, walPollMax) {
		// The list of a large archive takes many requests. The last segment may be on a later timeline, after a failover.
		found, err := archived.Has(ctx, last)
		if err != nil {
			return err
		}
		if found || pause == walPollMax {
			list, err := archived.Recoverable(ctx, base.SegmentSize)
			if err != nil {
				return err
			}
			_, err = recovery.Choose([]recovery.Base{base}, list, recovery.Target{Immediate: true}, time.Now())
			switch {
			case err == nil:
				return nil
			case found && time.Since(began) > gapWait:
				return fail(backupv1alpha1.ReasonDumpFailed, "%w: %s", errWALGone, err.Error())
			}
			if time.Since(began) > walWait {
				return fail(backupv1alpha1.ReasonDumpFailed, "the WAL of the base backup is not archived after %s (%w): see the condition Archiving of the PostgreSQL", walWait, err)
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// expireWAL deletes archived WAL that no base backup needs any more, and returns when the oldest backup was complete. Of a system
// identifier that no backup is left of, all WAL is deleted.
func (r *run) expireWAL(ctx context.Context, kept, expired []*manifest.Manifest) (first time.Time, err error) {
	oldest := map[string]string{} // by system identifier, without the timeline
	const timelineDigits, everything = 8, "00000001FFFFFFFFFFFFFFFF"
	for _, m := range expired {
		if m.Physical != nil {
			oldest[m.Physical.SystemIdentifier] = everything
		}
	}
	for _, m := range kept {
		if m.Physical == nil {
			continue
		}
		if first.IsZero() || m.Completed.Before(first) {
			first = m.Completed
		}
		if so := oldest[m.Physical.SystemIdentifier]; so == "" || m.Physical.StartWAL[timelineDigits:] < so[timelineDigits:] {
			oldest[m.Physical.SystemIdentifier] = m.Physical.StartWAL
		}
	}
	for system, segment := range oldest {
		deleted, err := walarchive.New(r.store, system).DeleteBefore(ctx, segment)
		if err != nil {
			return first, err
		}
		r.Log.Info("deleted archived WAL", "system", system, "before", segment, "objects", deleted)
	}
	return first, nil
}
