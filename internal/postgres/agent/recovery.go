package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/archive"
	"github.com/fettle-dev/fettle/internal/backup/manifest"
	"github.com/fettle-dev/fettle/internal/backup/progress"
	"github.com/fettle-dev/fettle/internal/backup/recovery"
	"github.com/fettle-dev/fettle/internal/backup/store"
	"github.com/fettle-dev/fettle/internal/backup/walarchive"
	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/server"
)

// planTimeout bounds reading the manifests and the list of the WAL in the store.
const planTimeout = 10 * time.Minute

// prefetchFolder is a folder on the volume for WAL that is fetched ahead.
const prefetchFolder = "recovery-wal"

// recoverData makes the data directory of a new cluster a restored backup, with archived WAL up to the target. The result is the
// data of a primary that was shut down, on a timeline of its own.
func (a *Agent) recoverData(ctx context.Context, from *databasev1alpha1.PostgreSQLRecovery, settings config.Settings) error {
	err := a.recoverFrom(ctx, from, settings)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return recoveryProblem(err)
}

func (a *Agent) recoverFrom(ctx context.Context, from *databasev1alpha1.PostgreSQLRecovery, settings config.Settings) error {
	target, err := recovery.ParseTarget(from)
	if err != nil {
		return fmt.Errorf("spec.bootstrap.recovery: %w", err)
	}
	location, err := a.backupLocation(ctx, from)
	if err != nil {
		return err
	}
	s, err := a.openStoreAt(ctx, location.Destination, location.Namespace+"/"+location.Backup)
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // nothing is written to it
	planning, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	plan, m, err := a.planRecovery(planning, s, target)
	if err != nil {
		return err
	}
	if !hasMajor(m.ServerVersion, a.major) {
		return &server.SourceError{Kind: backupv1alpha1.ReasonBackupUnsuitable, Expensive: true, Message: fmt.Sprintf(
			"backup %s is of PostgreSQL %s: set spec.version to its major version", m.Run, m.ServerVersion)}
	}
	return a.restore(ctx, s, plan, m, target, settings)
}

// hasMajor reports whether the version of a server, such as 16.4 or 19beta1, has this major version. A version that is not known passes:
// PostgreSQL checks its data files too.
func hasMajor(version string, major int) bool {
	rest, ok := strings.CutPrefix(version, strconv.Itoa(major))
	return version == "" || ok && (rest == "" || rest[0] < '0' || rest[0] > '9')
}

// planRecovery decides from what the store has.
func (a *Agent) planRecovery(ctx context.Context, s *store.Store, target recovery.Target) (recovery.Plan, *manifest.Manifest, error) {
	manifests, damaged, err := manifest.List(ctx, s)
	if err != nil {
		return recovery.Plan{}, nil, err
	}
	if len(damaged) > 0 {
		a.log.Warn("ignoring backups with damaged manifests", "runs", damaged)
	}
	bases, byRun := basesOf(manifests)
	system, err := recovery.SystemID(bases, target)
	if err != nil {
		return recovery.Plan{}, nil, err
	}
	var same []recovery.Base
	for _, b := range bases {
		if b.SystemID == system {
			same = append(same, b)
		}
	}
	archived := walarchive.New(s, system)
	list, err := archived.Recoverable(ctx, same[0].SegmentSize)
	if err != nil {
		return recovery.Plan{}, nil, err
	}
	plan, err := recovery.Choose(same, list, target, time.Now())
	if err != nil {
		return recovery.Plan{}, nil, err
	}
	if !target.Time.IsZero() && plan.Last != "" {
		stored, err := archived.StoredAt(ctx, plan.Last)
		if err == nil {
			err = plan.CheckTime(target, stored)
		}
		if err != nil {
			return recovery.Plan{}, nil, err
		}
	}
	return plan, byRun[plan.Base.Run], nil
}

// basesOf returns the Physical backups.
func basesOf(manifests []*manifest.Manifest) (bases []recovery.Base, byRun map[string]*manifest.Manifest) {
	byRun = map[string]*manifest.Manifest{}
	for _, m := range manifests {
		if base, ok := m.Base(); ok {
			byRun[m.Run], bases = m, append(bases, base)
		}
	}
	return bases, byRun
}

// restore downloads the backup, replays WAL, and reports both.
func (a *Agent) restore(
	ctx context.Context, s *store.Store, plan recovery.Plan, m *manifest.Manifest, target recovery.Target, settings config.Settings,
) error {
	what := "backup " + s.URI(manifest.Folder(m.Run))
	fetcher, err := walarchive.NewFetcher(walarchive.New(s, plan.Base.SystemID), filepath.Join(a.options.Volume, "fettle", prefetchFolder))
	if err != nil {
		return err
	}
	a.walSource.Store(fetcher)
	defer func() {
		a.walSource.Store(nil)
		_ = fetcher.Close() // the next recovery deletes what is left
	}()
	a.log.Info("restoring a backup", "backup", what, "target", target.String(), "timeline", plan.Timeline)
	a.reportRecovery("restoring "+what, nil)
	copied := progress.New(a.reportProgress)
	err = a.server.Recover(ctx, server.Recovery{
		What: what, Size: m.Parts[0].RawSize,
		Extract: func(ctx context.Context, write func(io.Reader) error) error {
			defer copied.Start(ctx, m.Parts[0].RawSize)()
			return readBase(ctx, s, m, func(content io.Reader) error { return countAll(copied, content, write) })
		},
		Configure: func(control server.ControlData) (config.Files, error) {
			settings.Minimums, settings.WALSegment = control.Minimums, control.WALSegmentSize
			return config.Render(settings)
		},
		Settings:  plan.Settings(target, a.options.restoreCommand()),
		Replaying: func() { a.reportRecovery("replaying WAL up to "+target.String()+", from "+what, new(copied.State())) },
	})
	if err != nil {
		return err
	}
	if err := a.clearNeedsReclone(); err != nil {
		return err
	}
	a.enqueue(func() {
		a.importStatus = importStatus{}
		a.events.Normal("Recovered", fmt.Sprintf("restored %s to %s, along timeline %d", what, target, plan.Timeline))
	})
	return nil
}

// readBase reads the base backup. The error is archive.ErrDamaged if it is not what was stored.
func readBase(ctx context.Context, s *store.Store, m *manifest.Manifest, write func(io.Reader) error) error {
	part := m.Parts[0]
	body, err := manifest.Open(ctx, s, m.Run, part)
	if err != nil {
		return err
	}
	defer body.Close() //nolint:errcheck // it is only read
	content, err := archive.NewReader(body, part.Name, nil)
	if err != nil {
		return err
	}
	defer content.Close() //nolint:errcheck // it frees memory only
	// A crafted part may grow without end; the volume has room for RawSize.
	if err := write(io.LimitReader(content, part.RawSize)); err != nil {
		return err
	}
	return content.Verify(part.Size, part.SHA256)
}

// countAll counts what is written, and the end of the archive, which need not be written.
func countAll(copied *progress.Counter, content io.Reader, write func(io.Reader) error) error {
	content = copied.Reader(content)
	if err := write(content); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, content)
	return err //nolint:wrapcheck // an error of the content
}

// reportRecovery reports what a recovery does, and how far it is. copied is nil before the copy.
func (a *Agent) reportRecovery(message string, copied *backupv1alpha1.Progress) {
	a.enqueue(func() {
		a.lastError = ""
		a.importStatus = importStatus{databasev1alpha1.ReasonCopying, message, copied}
	})
}

// reportProgress reports how far the copy of a base backup is.
func (a *Agent) reportProgress(_ context.Context, p backupv1alpha1.Progress) error {
	a.enqueue(func() { a.importStatus.progress = &p })
	return nil
}

// errAPI means that the API server did not give an object. That passes, so it is no reason to give a recovery up.
var errAPI = errors.New("no answer of the API server")

// recoveryProblem turns an error into one that has a reason.
func recoveryProblem(err error) error {
	if err == nil || errors.Is(err, errAPI) {
		return err
	}
	if storeError, ok := errors.AsType[*store.Error](err); ok {
		return &server.SourceError{
			Kind: server.SourceErrorKind(storeError.Reason), Message: storeError.Message, Expensive: storeError.Permanent, Cause: err,
		}
	}
	if source, ok := errors.AsType[*server.SourceError](err); ok {
		return source
	}
	if problem, ok := errors.AsType[*recovery.Error](err); ok {
		return &server.SourceError{Kind: server.SourceErrorKind(problem.Reason), Message: problem.Message}
	}
	if errors.Is(err, archive.ErrDamaged) || errors.Is(err, archive.ErrKeyMissing) {
		return &server.SourceError{
			Kind: server.BackupDamaged, Expensive: true, Message: "the base backup is not what was stored: " + err.Error() + ": choose another one with location.run",
			Cause: err,
		}
	}
	return &server.SourceError{Kind: server.RecoveryFailed, Message: "recovery failed: " + err.Error(), Cause: err}
}
