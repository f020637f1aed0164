package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"

	"github.com/fettle-dev/fettle/internal/postgres/config"
)

// Recovery is a base backup to restore, and how.
type Recovery struct {
	// What names the backup in errors.
	What string
	// Size of the archive, in bytes. Its files have less.
	Size int64
	// Extract calls write with the base backup, a tar archive, and returns an error if the backup is damaged.
	Extract func(ctx context.Context, write func(io.Reader) error) error
	// Configure renders the configuration. The server has the parameters of control at least.
	Configure func(control ControlData) (config.Files, error)
	// Settings are lines of postgresql.conf that override the others: what to replay, and to which target.
	Settings string
	// Replaying is called before replay starts.
	Replaying func()
}

// recoverySettings override the configuration while a backup is recovered. Nobody can connect. WAL that the recovered server
// needs to archive later is marked, and nothing is archived yet. Replay needs no more than the parameters in the control file.
const recoverySettings = `
listen_addresses = ''
hot_standby = 'off'
archive_mode = 'on'
archive_command = ''
primary_conninfo = ''
synchronous_standby_names = ''
max_logical_replication_workers = '0'
`

// Recover restores a base backup into the data directory, which must be Empty, replays WAL and promotes the server, which
// starts a new timeline. Then it shuts the server down. The data directory is either complete or absent: an interrupted
// recovery starts again. Neither configuration nor recovery settings of the backup are used. The error is a *SourceError if
// the cause is the backup or the target.
func (s *Server) Recover(ctx context.Context, r Recovery) error {
	return s.createDataDir(ctx, "recover "+r.What, func() error {
		disk, err := s.Disk()
		if err != nil {
			return err
		}
		if err := r.checkSize(disk); err != nil {
			return err
		}
		if err := r.Extract(ctx, func(from io.Reader) error { return s.extract(ctx, from, s.CloneDir(), r.Size) }); err != nil {
			return err
		}
		if err := errors.Join(s.ignoreConfig(s.CloneDir()), s.write(filepath.Join(s.CloneDir(), recoverySignal), nil)); err != nil {
			return err
		}
		return s.replay(ctx, r)
	})
}

func (r Recovery) checkSize(disk Disk) error {
	const gib = 1 << 30
	if r.Size <= disk.Free-copyReserve { // the size is from the store, and may be any number
		return nil
	}
	return &SourceError{Kind: TooLarge, Expensive: true, Message: fmt.Sprintf(
		"%s needs %d GiB (rounded up), but the volume has %d GiB free: increase spec.storage", r.What, (r.Size-1)/gib+1, disk.Free/gib)}
}

// replay runs a server on the clone directory until it has reached the target and promoted itself.
func (s *Server) replay(ctx context.Context, r Recovery) error {
	logs := &outputTail{log: s.options.Output}
	clone := &Server{options: s.options, dataName: cloneName}
	clone.options.Output, clone.options.RunDir = logs, filepath.Join(s.options.RunDir, "recovery")
	if err := s.makeDir(clone.options.RunDir); err != nil {
		return err
	}
	defer removeAll(clone.options.RunDir) //nolint:errcheck // it is written again by the next recovery
	control, err := clone.ControlData(ctx)
	if err != nil {
		return err
	}
	files, err := r.Configure(control)
	if err != nil {
		return err
	}
	files[config.ConfFile] += recoverySettings + fmt.Sprintf("data_directory = '%s'\nunix_socket_directories = '%s'\nhba_file = '%s'\nident_file = '%s'\n",
		clone.DataDir(), clone.SocketDir(), filepath.Join(clone.ConfigDir(), config.HBAFile), filepath.Join(clone.ConfigDir(), config.IdentFile)) + r.Settings
	if _, err := clone.Configure(files); err != nil {
		return err
	}
	r.Replaying()
	process, err := clone.Start(ctx)
	if err != nil {
		return err
	}
	if err := process.WaitReady(ctx); err != nil {
		if ctx.Err() != nil {
			return errors.Join(err, process.Fence(context.WithoutCancel(ctx), 0))
		}
		return errors.Join(recoveryError(logs.String(), err), process.waitExit(ctx))
	}
	return process.Stop(ctx, Fast)
}

// recoveryErrors are messages of PostgreSQL, which has no SQLSTATE of its own for them and exits with the same code for all.
var recoveryErrors = []struct {
	pattern *regexp.Regexp
	kind    SourceErrorKind
	what    string
}{
	{regexp.MustCompile(`recovery ended before configured recovery target was reached`), TargetNotReached,
		"the archived WAL ends before the target of spec.bootstrap.recovery: choose an earlier target, or none to recover all of it"},
	{regexp.MustCompile(`requested recovery stop point is before consistent recovery point`), TargetTooEarly,
		"the target of spec.bootstrap.recovery is before the end of the base backup: choose a later target, or an older backup with location.run"},
}

// fatal matches the message of the error that ended a server.
var fatal = regexp.MustCompile(`(?:FATAL|PANIC):  (.*)`)

func recoveryError(logs string, err error) error {
	for _, known := range recoveryErrors {
		if known.pattern.MatchString(logs) {
			return &SourceError{Kind: known.kind, Message: known.what, Expensive: true, Cause: err}
		}
	}
	message := err.Error()
	if all := fatal.FindAllStringSubmatch(logs, -1); len(all) > 0 {
		message = all[0][1] // the others follow from the first
	}
	return &SourceError{Kind: RecoveryFailed, Message: "recovery failed: " + message, Expensive: true, Cause: err}
}
