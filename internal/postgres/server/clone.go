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

// Source is a running server to copy from, reached by TLS with a client certificate as config.ReplicationUser.
type Source struct {
	config.Upstream
	// ApplicationName is shown by the source.
	ApplicationName string
	// MaxRate bounds a copy, in KiB/s; 0 does not.
	MaxRate int
}

// Clone copies a running server into the data directory, which must be Empty. It is whole or not there: what an
// interrupted one left is removed first. The new data directory is that of a standby, so that it can't be started as
// anything else by mistake.
func (s *Server) Clone(ctx context.Context, source Source) error {
	return s.createDataDir(ctx, "clone "+source.Host, func() error { return s.baseBackup(ctx, source) })
}

// CheckSource says whether the source takes a connection for replication.
func (s *Server) CheckSource(ctx context.Context, source Source) error {
	_, err := s.tool(ctx, toolOptions{quiet: true}, "psql", "--no-psqlrc", "--no-password", "--dbname="+source.CopyConnInfo(source.ApplicationName, "")+" replication=true",
		"--command=IDENTIFY_SYSTEM")
	return err
}

// baseBackup has pg_basebackup fill the folder for clones.
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
	return s.write(filepath.Join(s.CloneDir(), standbySignal), nil)
}

// Rewind makes the data directory, of a stopped server, one that can follow source: everything after the point where
// their histories part is undone. It is that of a standby then. If it fails, the data directory may not be usable any
// more: try again, or Remove and Clone.
func (s *Server) Rewind(ctx context.Context, source Source) error {
	if content, err := s.DataState(); err != nil {
		return err
	} else if content != Complete {
		return fmt.Errorf("rewind to %s: there is no data directory", source.Host)
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

// shutDownCleanly brings a data directory into the state that pg_rewind requires: shut down in order. A standby is started once more and
// stopped. A primary that crashed recovers without taking connections, with its own configuration: pg_rewind would recover it
// with that of initdb, which has no room for prepared transactions.
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

// keepControlFile keeps a copy of the control file while do runs: pg_rewind that ends in the middle of writing it would
// leave a data directory that not even pg_rewind could read.
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
