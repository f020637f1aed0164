package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/fettle-dev/fettle/internal/postgres/config"
)

// Source is a running server to clone. Connections use TLS with a client certificate for config.ReplicationUser.
type Source struct {
	config.Upstream
	// ApplicationName is the application_name on the source.
	ApplicationName string
	// MaxRate limits the rate of a base backup in KiB/s. 0 means no limit.
	MaxRate int
}

// Clone copies a running server into the data directory, which must be Empty. The data directory is either complete or
// absent: Clone first removes the remains of an interrupted copy. The new data directory is marked as a standby, so it
// cannot start as a primary by mistake.
func (s *Server) Clone(ctx context.Context, source Source) error {
	return s.createDataDir(ctx, "clone "+source.Host, func() error { return s.baseBackup(ctx, source) })
}

// CheckSource returns an error if the source does not accept a replication connection.
func (s *Server) CheckSource(ctx context.Context, source Source) error {
	_, err := s.tool(ctx, toolOptions{quiet: true}, "psql", "--no-psqlrc", "--no-password", "--dbname="+source.CopyConnInfo(source.ApplicationName, "")+" replication=true",
		"--command=IDENTIFY_SYSTEM")
	return err
}

// baseBackup runs pg_basebackup into the clone directory.
func (s *Server) baseBackup(ctx context.Context, source Source) error {
	arguments := []string{
		"--pgdata=" + s.CloneDir(), "--format=plain", "--wal-method=stream", "--checkpoint=fast", "--no-password",
		"--dbname=" + source.CopyConnInfo(source.ApplicationName, ""),
	}
	if source.MaxRate > 0 {
		arguments = append(arguments, "--max-rate="+strconv.Itoa(source.MaxRate))
	}
	if _, err := s.tool(ctx, toolOptions{holdLock: true}, "pg_basebackup", arguments...); err != nil {
		return err
	}
	if err := s.archiveClonedWAL(); err != nil {
		return err
	}
	return s.write(filepath.Join(s.CloneDir(), standbySignal), nil)
}

// archiveClonedWAL makes the new standby keep the WAL that came with the base backup until the archive has it, like all other WAL.
// pg_basebackup marks this WAL as archived, although the source may fail before it has archived it.
func (s *Server) archiveClonedWAL() error {
	marks, err := filepath.Glob(filepath.Join(s.CloneDir(), "pg_wal", "archive_status", "*.done"))
	if err != nil {
		return fmt.Errorf("archive cloned WAL: %w", err)
	}
	for _, mark := range marks {
		if err := os.Rename(mark, strings.TrimSuffix(mark, ".done")+".ready"); err != nil {
			return fmt.Errorf("archive cloned WAL: %w", err)
		}
	}
	return nil
}

// Rewind runs pg_rewind on the data directory of a stopped server, which becomes a standby that can follow source. WAL
// after the point where the timelines diverged is discarded. If Rewind fails, the data directory may be unusable: try
// again, or Remove and Clone.
func (s *Server) Rewind(ctx context.Context, source Source) error {
	if content, err := s.DataState(); err != nil {
		return err
	} else if content != Complete {
		return fmt.Errorf("rewind to %s: the data directory is missing or empty", source.Host)
	}
	if err := s.shutDownCleanly(ctx); err != nil {
		return fmt.Errorf("rewind to %s: %w", source.Host, err)
	}
	arguments := []string{"--target-pgdata=" + s.DataDir(), "--source-server=" + source.CopyConnInfo(source.ApplicationName, "postgres")}
	if err := s.keepControlFile(func() error {
		_, err := s.tool(ctx, toolOptions{holdLock: true}, "pg_rewind", arguments...)
		return err
	}); err != nil {
		return fmt.Errorf("rewind to %s: %w", source.Host, err)
	}
	return s.SetStandby(true)
}

// shutDownCleanly brings a data directory into the state that pg_rewind requires: a clean shutdown. A standby is started
// and stopped. A crashed primary recovers in single-user mode with its own configuration. pg_rewind would use the initdb
// configuration, which allows no prepared transactions.
func (s *Server) shutDownCleanly(ctx context.Context) error {
	control, err := s.ControlData(ctx)
	if err != nil {
		return err
	}
	standby, err := s.IsStandby()
	if err != nil || strings.HasPrefix(control.State, "shut down") {
		return err
	}
	if !standby {
		_, err := s.tool(ctx, toolOptions{holdLock: true}, "postgres", "--single", "-D", s.DataDir(),
			"-c", "config_file="+filepath.Join(s.ConfigDir(), config.ConfFile), "template1")
		return err
	}
	p, err := s.Start(ctx)
	if err != nil {
		return err
	}
	if err := p.WaitReady(ctx); err != nil {
		return errors.Join(err, p.Fence(context.WithoutCancel(ctx), 0))
	}
	return p.Stop(ctx, Fast)
}

// keepControlFile backs up the control file while do runs. If pg_rewind is killed while writing it, even pg_rewind could
// not read the data directory afterwards.
func (s *Server) keepControlFile(do func() error) error {
	path := filepath.Join(s.DataDir(), controlFile)
	backup := filepath.Join(s.options.Volume, "pg_control.copy")
	before, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := s.write(backup, before); err != nil {
		return err
	}
	failure := do()
	if failure != nil {
		if after, err := os.ReadFile(path); err != nil || len(after) != len(before) {
			failure = errors.Join(failure, s.write(path, before))
		}
	}
	return errors.Join(failure, os.Remove(backup))
}
