package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/store"
	"github.com/fettle-dev/fettle/internal/backup/walarchive"
	"github.com/fettle-dev/fettle/internal/postgres/walfile"
)

const (
	// archiveHold is how long a request of PostgreSQL waits for its file. PostgreSQL logs a failure after that, and tries again.
	archiveHold = 55 * time.Second
	// archiveStopGrace is how long a stopping primary may still store WAL.
	archiveStopGrace = 3 * time.Second
	// archivePatience is how long a standby leaves a file to the primary while the store answers that it does not have it. The primary
	// may have disposed of the file before backups were enabled, or at a former destination.
	archivePatience = 5 * time.Minute
	// archivePause and archivePauseMax are the first and the longest time between two tries.
	archivePause, archivePauseMax = time.Second, 15 * time.Second
	// archiveParallel is how many files are stored at a time.
	archiveParallel = 4
	// archiveKnown bounds the names of archived files that are remembered.
	archiveKnown = 4096
	// archivePart is the size of the parts of an upload in bytes: uploads share the memory of the database's container.
	archivePart = 5 << 20
	// archiveSlow is how long an upload may take before it counts as a failure.
	archiveSlow = 30 * time.Second
	// archiveRate is the least speed of an upload in bytes per second, after archiveSlow.
	archiveRate = 128 << 10
	// archiveReopen is how old an open store may be when a request fails: its keys may have changed.
	archiveReopen = 10 * time.Second
	// archiveTimeout is how many seconds of writes may be missing in the archive of a database that writes little.
	archiveTimeout = 60
)

// archiveView is what the archiver knows of the instance.
type archiveView struct {
	// known is false until the object was read.
	known bool
	// destination is nil while backups are not enabled.
	destination *backupv1alpha1.Destination
	systemID    string
	// timeline is that of the primary; 0 while it is unknown.
	timeline uint32
	primary  bool
	// stoppingSince is zero while PostgreSQL runs.
	stoppingSince time.Time
}

// archiver answers PostgreSQL's archive_command. The primary stores each file. A standby keeps it until the store has it: if the
// standby becomes the primary first, it stores what the former primary could not. It is safe for concurrent use.
type archiver struct {
	log *slog.Logger
	// walDir is pg_wal.
	walDir string
	// open opens the store of a destination.
	open func(context.Context, backupv1alpha1.Destination) (*store.Store, error)
	ctx  context.Context //nolint:containedctx // of uploads, which outlive a request

	mutex sync.Mutex
	view  archiveView
	// changed is closed when the view has changed.
	changed chan struct{}
	archiveRun
}

// archiveRun is the work for one destination and one system identifier.
type archiveRun struct {
	// cancel ends the uploads of this run; nil before the first.
	cancel  context.CancelFunc
	ctx     context.Context //nolint:containedctx // see archiver.ctx
	archive *walarchive.Archive
	store   *store.Store
	opened  time.Time
	uploads map[string]*upload
	// archived are names of files that the store has.
	archived map[string]bool
	// missingSince is since when the store answers that it lacks a file that a standby waits for.
	missingSince map[string]time.Time
	state        archiveState
}

// archiveState is what is reported.
type archiveState struct {
	lastSegment              string
	lastSuccess, lastWritten time.Time
	failingSince             time.Time
	failure                  error
	waiting                  int
}

// upload is one file on its way to the store.
type upload struct {
	started time.Time
	done    chan struct{}
	err     error
}

func newArchiver(ctx context.Context, log *slog.Logger, walDir string, open func(context.Context, backupv1alpha1.Destination) (*store.Store, error)) *archiver {
	return &archiver{log: log, walDir: walDir, open: open, ctx: ctx, changed: make(chan struct{})}
}

// update tells the archiver what has changed. It never waits for the store.
func (a *archiver) update(v archiveView) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if !v.stoppingSince.IsZero() && !a.view.stoppingSince.IsZero() {
		v.stoppingSince = a.view.stoppingSince
	}
	if reflect.DeepEqual(v, a.view) {
		return
	}
	if !reflect.DeepEqual(v.destination, a.view.destination) || v.systemID != a.view.systemID {
		a.reset()
	}
	a.view = v
	close(a.changed)
	a.changed = make(chan struct{})
}

// reset ends all uploads and forgets the store.
func (a *archiver) reset() {
	if a.cancel != nil {
		a.cancel()
	}
	a.closeStore()
	a.archiveRun = archiveRun{uploads: map[string]*upload{}, archived: map[string]bool{}, missingSince: map[string]time.Time{}}
	a.archiveRun.ctx, a.cancel = context.WithCancel(a.ctx)
}

// archiveStep is what to do about a file next.
type archiveStep int

const (
	archiveWait     archiveStep = iota // the view has to change first
	archiveDone                        // PostgreSQL may remove the file
	archiveUpload                      // store it
	archiveLook                        // see whether the store has it
	archiveStopping                    // PostgreSQL asks again after its start
)

// nextArchiveStep decides about a file. failing means that the last upload failed, missing is how long the store has answered that
// it lacks the file.
func nextArchiveStep(v archiveView, archived, failing bool, missing time.Duration, at time.Time) archiveStep {
	stopping := !v.stoppingSince.IsZero()
	switch {
	case v.known && v.destination == nil, archived:
		return archiveDone
	case stopping && (!v.primary || failing || at.Sub(v.stoppingSince) >= archiveStopGrace):
		return archiveStopping
	case !v.known || v.systemID == "":
		return archiveWait
	case v.primary || missing >= archivePatience:
		return archiveUpload
	}
	return archiveLook
}

// Archive returns nil when PostgreSQL may remove a file of pg_wal: the store has it, or backups are not enabled.
func (a *archiver) Archive(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, archiveHold)
	defer cancel()
	last := errors.New("the agent does not know the PostgreSQL object or the system identifier yet")
	for pause := archivePause; ; pause = min(2*pause, archivePauseMax) {
		step, wait := a.step(name)
		var err error
		switch step {
		case archiveDone:
			return nil
		case archiveStopping:
			return walfile.ErrStopping
		case archiveUpload:
			err = a.upload(ctx, name, wait)
		case archiveLook:
			err = a.look(ctx, name)
		case archiveWait:
			err = last
		}
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-wait: // decide again at once
		case <-a.graceOver():
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("WAL file %s is not archived yet: %w", name, last)
		}
	}
}

// step decides about a file. The channel is closed when the decision may be another.
func (a *archiver) step(name string) (archiveStep, <-chan struct{}) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	missing := time.Duration(0)
	if since, ok := a.missingSince[name]; ok {
		missing = time.Since(since)
	}
	return nextArchiveStep(a.view, a.archived[name], a.state.failure != nil, missing, time.Now()), a.changed
}

// graceOver fires when a stopping primary has to give up.
func (a *archiver) graceOver() <-chan time.Time {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.view.stoppingSince.IsZero() {
		return nil
	}
	return time.After(time.Until(a.view.stoppingSince.Add(archiveStopGrace)))
}

// upload stores a file, and meanwhile the next ones that PostgreSQL has ready.
func (a *archiver) upload(ctx context.Context, name string, changed <-chan struct{}) error {
	a.mutex.Lock()
	u := a.start(name)
	for _, next := range a.ready(archiveParallel + len(a.uploads)) {
		if len(a.uploads) >= archiveParallel {
			break
		}
		if !a.archived[next] {
			a.start(next)
		}
	}
	a.mutex.Unlock()
	for {
		select {
		case <-u.done:
			return u.err
		case <-changed:
			return errors.New("the state of the instance has changed")
		case <-a.graceOver():
			return walfile.ErrStopping
		case <-ctx.Done():
			return fmt.Errorf("the store needs more than %s for the upload", time.Since(u.started).Round(time.Second))
		}
	}
}

// start starts to store a file, unless that has begun. The caller holds the mutex.
func (a *archiver) start(name string) *upload {
	if u := a.uploads[name]; u != nil {
		return u
	}
	u := &upload{started: time.Now(), done: make(chan struct{})}
	run := a.archiveRun.ctx
	a.uploads[name] = u
	go func() {
		written, err := a.put(run, name)
		a.mutex.Lock()
		defer a.mutex.Unlock()
		u.err = err
		close(u.done)
		if run.Err() != nil {
			return // it was of an earlier destination
		}
		delete(a.uploads, name)
		a.record(name, written, err)
	}()
	return u
}

// put stores a file, and returns when PostgreSQL wrote it last.
func (a *archiver) put(ctx context.Context, name string) (written time.Time, err error) {
	file := filepath.Join(a.walDir, filepath.Base(name))
	info, err := os.Stat(file)
	if err != nil {
		return written, fmt.Errorf("read WAL file: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, archiveSlow+time.Duration(info.Size()/archiveRate)*time.Second)
	defer cancel()
	archive, err := a.openArchive(ctx)
	if err == nil {
		err = archive.Put(ctx, name, file)
	}
	if conflict := (*walarchive.ConflictError)(nil); errors.As(err, &conflict) && a.inherited(name) {
		err = nil // the former primary has stored it: behind the last record, the unused rest of a segment may differ
	}
	return info.ModTime(), err
}

// inherited reports whether a segment is of an earlier timeline than that of the instance.
func (a *archiver) inherited(name string) bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return walarchive.IsSegment(name) && name < fmt.Sprintf("%08X", a.view.timeline)
}

// record records the end of an upload. The caller holds the mutex.
func (a *archiver) record(name string, written time.Time, err error) {
	s := &a.state
	if err != nil {
		if s.failure == nil {
			s.failingSince = time.Now()
			a.log.Warn("failed to archive WAL", "file", name, "error", oneLine(err.Error()))
		}
		s.failure = err
		if time.Since(a.opened) > archiveReopen {
			a.closeStore() // the next try reads the keys again
		}
		return
	}
	if s.failure != nil {
		a.log.Info("archiving WAL again", "file", name)
	}
	a.remember(name)
	s.failure, s.failingSince, s.lastSuccess = nil, time.Time{}, time.Now()
	if walarchive.IsSegment(name) && name > s.lastSegment {
		s.lastSegment, s.lastWritten = name, written
	}
}

// remember remembers that the store has a file. The caller holds the mutex.
func (a *archiver) remember(name string) {
	if len(a.archived) >= archiveKnown {
		a.archived = map[string]bool{} // asking the store again does no harm
	}
	a.archived[name] = true
	delete(a.missingSince, name)
}

// look returns nil if the store has a file that the primary is to store.
func (a *archiver) look(ctx context.Context, name string) error {
	a.mutex.Lock()
	run := a.archiveRun.ctx
	a.mutex.Unlock()
	ctx, cancel := context.WithTimeout(ctx, archiveSlow)
	defer cancel()
	defer context.AfterFunc(run, cancel)()
	archive, err := a.openArchive(ctx)
	has := false
	if err == nil {
		has, err = archive.Has(ctx, name)
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if run.Err() != nil {
		return errors.New("the destination has changed")
	}
	if err != nil {
		delete(a.missingSince, name) // the primary cannot store anything either
		if time.Since(a.opened) > archiveReopen {
			a.closeStore()
		}
		return err
	}
	if has {
		a.remember(name)
		return nil
	}
	if _, ok := a.missingSince[name]; !ok {
		a.missingSince[name] = time.Now()
	}
	return errors.New("the primary has not stored it yet")
}
