package temporary

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/recovery"
	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/server"
)

// temporarySettings override the usual configuration: no other pod can connect, nothing is archived, and the data need not survive a
// crash.
const temporarySettings = `
listen_addresses = ''
archive_mode = 'off'
fsync = 'off'
synchronous_commit = 'off'
autovacuum = 'off'
max_wal_size = '4GB'
`

// noEventTriggers keeps event triggers of the backup, such as those for logins, from running.
const noEventTriggers, eventTriggersMajor = "event_triggers = 'off'\n", 17

// trustSocket lets each role log in: only the two containers reach the socket.
const trustSocket = "local all all trust\n"

type postgresql struct {
	process *server.Process
}

func (p postgresql) exited() <-chan struct{}        { return p.process.Done() }
func (p postgresql) kill(ctx context.Context) error { return p.process.Kill(ctx) }

// startPostgreSQL starts an empty server, or one with a base backup and all WAL after it.
func (o Options) startPostgreSQL(ctx context.Context, c *client, r *Recovery) (database, error) {
	binaries, err := server.FindBinaries(ctx)
	if err != nil {
		return nil, &Error{backupv1alpha1.ReasonProgramMissing, err.Error()}
	}
	if r != nil && r.Major != 0 && r.Major != binaries.Major {
		return nil, &Error{backupv1alpha1.ReasonBackupUnsuitable, fmt.Sprintf(
			"%s is of PostgreSQL %d, and the image has %d: set pod.image to an image of version %d", r.What, r.Major, binaries.Major, r.Major)}
	}
	volume := filepath.Join(o.Data, "postgresql")
	if err := os.RemoveAll(volume); err != nil { // of an earlier attempt of the container
		return nil, fmt.Errorf("remove old data: %w", err)
	}
	s, err := server.New(server.Options{
		Binaries: binaries, Volume: volume, RunDir: PostgreSQLFolder(o.Folder), Credential: o.Credential, Output: o.Output,
	})
	if err != nil {
		return nil, err
	}
	if r == nil {
		err = s.Init(ctx, server.InitOptions{})
	} else {
		err = o.recover(ctx, c, s, binaries, r)
	}
	if err != nil {
		return nil, err
	}
	control, err := s.ControlData(ctx)
	if err != nil {
		return nil, err
	}
	files, err := render(s, binaries.Major, control)
	if err != nil {
		return nil, err
	}
	if _, err := s.Configure(files); err != nil {
		return nil, err
	}
	process, err := s.Start(ctx)
	if err != nil {
		return nil, err
	}
	if err := process.WaitReady(ctx); err != nil {
		return nil, errors.Join(err, process.Kill(context.WithoutCancel(ctx)))
	}
	return postgresql{process}, nil
}

// render is the configuration of the server.
func render(s *server.Server, major int, control server.ControlData) (config.Files, error) {
	files, err := config.Render(config.Settings{
		Major: major, DataDir: s.DataDir(), ConfigDir: s.ConfigDir(), SocketDir: s.SocketDir(), ClusterName: "temporary",
		Minimums: control.Minimums, WALSegment: control.WALSegmentSize,
	})
	if err != nil {
		return nil, err
	}
	files[config.HBAFile] = trustSocket
	files[config.ConfFile] += temporarySettings
	if major >= eventTriggersMajor {
		files[config.ConfFile] += noEventTriggers
	}
	return files, nil
}

// recover restores the base backup, replays all archived WAL, and checks all pages.
func (o Options) recover(ctx context.Context, c *client, s *server.Server, binaries server.Binaries, r *Recovery) error {
	err := s.Recover(ctx, server.Recovery{
		What: r.What, Size: r.Size,
		Extract: func(ctx context.Context, write func(io.Reader) error) error {
			return c.get(ctx, pathBase, func(body io.Reader) error {
				if err := write(body); err != nil {
					return err
				}
				_, err := io.Copy(io.Discard, body) // the Host breaks the body off if the backup is damaged
				return err
			})
		},
		Configure: func(control server.ControlData) (config.Files, error) {
			return render(s, binaries.Major, control)
		},
		Settings:  recovery.Plan{Timeline: r.Timeline}.Settings(recovery.Target{}, o.restoreCommand()),
		Replaying: func() { o.Log.Info("replaying WAL", "timeline", r.Timeline) },
	})
	if problem, ok := errors.AsType[*server.SourceError](err); ok {
		return o.problem(problem, r)
	}
	if err != nil {
		return err
	}
	return o.checkPages(ctx, s, binaries)
}

// problem is the reason for an error of a recovery.
func (o Options) problem(problem *server.SourceError, r *Recovery) error {
	const gib = 1 << 30
	if problem.Kind == server.TooLarge {
		return &Error{backupv1alpha1.ReasonRestoreFailed, fmt.Sprintf(
			"%s needs more than %d GiB, and the volume has less: set storage of the temporary server", r.What, r.Size/gib+1)}
	}
	return &Error{string(problem.Kind), problem.Message}
}

func (o Options) restoreCommand() string {
	quote := func(text string) string { // for the shell; % is a variable of PostgreSQL's
		return "'" + strings.NewReplacer(`'`, `'\''`, `%`, `%%`).Replace(text) + "'"
	}
	return "exec " + quote(o.Program) + " backup fetch --folder " + quote(o.Folder) + " %f %p"
}

// checkPages verifies the checksums of all pages of a server that was shut down, if it has checksums.
func (o Options) checkPages(ctx context.Context, s *server.Server, binaries server.Binaries) error {
	program := filepath.Join(binaries.Dir, "pg_checksums")
	if _, err := os.Stat(program); errors.Is(err, os.ErrNotExist) {
		o.Log.Warn("the image has no pg_checksums: page checksums are verified only where tables are read")
		return nil
	}
	cmd := exec.CommandContext(ctx, program, "--check", "--pgdata="+s.DataDir()) //nolint:gosec // a program of the image
	cmd.Env = []string{"LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: o.Credential}
	output, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(output))
	_, _ = fmt.Fprintln(o.Output, text)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case strings.Contains(text, "data checksums are not enabled"): // pg_checksums has no other way to tell this
		return nil
	}
	const most = 500
	return &Error{backupv1alpha1.ReasonBackupDamaged, "the checksums of pages are wrong: restore another run: " + text[:min(len(text), most)]}
}
