// Package runner is what the pod of a BackupRun or Restore does: it copies databases to an object store, or back. It starts the dump
// programs of the image without a shell, streams their output, and stages nothing on disk.
package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/job"
	"github.com/fettle-dev/fettle/internal/backup/progress"
	"github.com/fettle-dev/fettle/internal/backup/store"
)

// Reporter publishes a run in the status of its object.
type Reporter interface {
	// Progress may fail: a later one replaces it.
	Progress(ctx context.Context, p backupv1alpha1.Progress) error
	Result(ctx context.Context, r backupv1alpha1.RunResult) error
}

// Options of a pod.
type Options struct {
	Report Reporter
	Log    *slog.Logger
	// Temp is a folder in memory, for the passwords of the programs.
	Temp string
	// Root is put before the folders of package job. Empty except in tests.
	Root string
	// StoreOptions are empty except in tests.
	StoreOptions []store.Option
	// Temporary is the folder that is shared with the temporary server. Defaults to job.DirTemporary.
	Temporary string
	// SegmentSize is the most that one object of a part gets, in bytes. 0 except in tests: then it is 64 GiB.
	SegmentSize int64
}

// run is one attempt of a BackupRun or Restore.
type run struct {
	Options
	config   *job.Config
	store    *store.Store
	progress *progress.Counter
	secrets  *redactor
	// uri is set if the server's connection is a URI.
	uri *connectionURI
}

// Run backs up or restores as the Config says, and reports the result. The error is an *Error, except when the context ended: then the
// outcome is unknown, and nothing is reported.
func Run(ctx context.Context, c *job.Config, o Options) error {
	r := &run{Options: o, config: c, progress: progress.New(o.Report.Progress), secrets: &redactor{}}
	work := r.restore
	if c.Backup != nil {
		work = r.backUp
	}
	result, err := work(ctx)
	if ctx.Err() != nil {
		return fmt.Errorf("stopped: %w", context.Cause(ctx))
	}
	if err != nil {
		failure := r.failure(err)
		result.Reason, result.Message = failure.Reason, failure.Message
		err = failure
	} else {
		result.Reason = backupv1alpha1.ReasonSucceeded
		r.progress.Finish(ctx)
	}
	if reportErr := o.Report.Result(ctx, result); reportErr != nil {
		return errors.Join(err, fmt.Errorf("report the result: %w", reportErr))
	}
	return err
}

// openStore opens the folder of a Backup.
func (r *run) openStore(ctx context.Context, destination backupv1alpha1.Destination, folder string) error {
	keys, err := store.KeysFromDirs(r.path(job.DirStore), filepath.Join(r.path(job.DirStoreCA), "ca.crt"))
	if err != nil {
		return fmt.Errorf("read the keys of the store: %w", err)
	}
	r.store, err = store.Open(ctx, destination, keys, folder, r.StoreOptions...)
	return err
}

// path returns the place of a folder of package job.
func (r *run) path(folder string) string { return filepath.Join(r.Root, folder) }
