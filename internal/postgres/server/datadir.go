package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// DataState is the state of a data directory.
type DataState string

// States of a data directory.
const (
	// Empty means that there is no data directory, or an empty one.
	Empty DataState = "Empty"
	// Complete means that a server can start from the data directory.
	Complete DataState = "Complete"
	// Incomplete means that a file is missing that a server needs to start. Only an explicit request removes such data.
	Incomplete DataState = "Broken"
	// Unrecognized means that the directory is unreadable, contains other files, or belongs to another major version.
	Unrecognized DataState = "Foreign"
)

// DataState inspects the data directory. The error explains why it cannot be used: it is unreadable, incomplete, or of
// another major version than the binaries.
func (s *Server) DataState() (DataState, error) {
	entries, err := os.ReadDir(s.DataDir())
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return Empty, nil
	}
	if err != nil {
		return Unrecognized, fmt.Errorf("read the data directory: %w", err)
	}
	versionFile, err := os.ReadFile(filepath.Join(s.DataDir(), "PG_VERSION"))
	if errors.Is(err, os.ErrNotExist) {
		return Unrecognized, fmt.Errorf("%s contains files but no PG_VERSION: check that the right volume is mounted", s.DataDir())
	}
	if err != nil {
		return Unrecognized, fmt.Errorf("read the data directory: %w", err)
	}
	if major := strings.TrimSpace(string(versionFile)); major != strconv.Itoa(s.options.Binaries.Major) {
		return Unrecognized, fmt.Errorf("the data directory belongs to PostgreSQL %s but the image has %s: use an image of version %s",
			major, s.options.Binaries.Version, major)
	}
	control, err := os.Stat(filepath.Join(s.DataDir(), controlFile))
	if err != nil || control.Size() == 0 {
		return Incomplete, errors.Join(fmt.Errorf("the data directory %s has no control file: reclone the instance or restore a backup", s.DataDir()), err)
	}
	return Complete, nil
}

// InitOptions are options for initdb.
type InitOptions struct {
	// Locale is a libc locale. Defaults to C.UTF-8. With ICULocale, the locale provider is ICU (PostgreSQL 15 or later).
	Locale, ICULocale string
	// WALSegmentSize is in MiB. Defaults to 16.
	WALSegmentSize int
}

// Init runs initdb with data checksums. The data directory is either complete or absent: an interrupted initdb is repeated.
func (s *Server) Init(ctx context.Context, o InitOptions) error {
	locale := o.Locale
	if locale == "" {
		locale = "C.UTF-8"
	}
	arguments := []string{
		"--pgdata=" + s.CloneDir(), "--username=postgres", "--encoding=UTF8", "--locale=" + locale, "--data-checksums",
		"--auth-local=peer", "--auth-host=reject", "--no-instructions",
	}
	if s.options.Binaries.Major < 14 {
		arguments = arguments[:len(arguments)-1]
	}
	if o.ICULocale != "" {
		if s.options.Binaries.Major < 15 {
			return fmt.Errorf("PostgreSQL %d does not support icuLocale: use version 15 or later", s.options.Binaries.Major)
		}
		arguments = append(arguments, "--locale-provider=icu", "--icu-locale="+o.ICULocale)
	}
	if o.WALSegmentSize != 0 {
		arguments = append(arguments, "--wal-segsize="+strconv.Itoa(o.WALSegmentSize))
	}
	return s.createDataDir(ctx, "initialize the data directory", func() error {
		_, err := s.tool(ctx, toolOptions{holdLock: true}, "initdb", arguments...)
		return err
	})
}

// createDataDir calls fill to populate the clone directory, then renames it to the data directory.
func (s *Server) createDataDir(ctx context.Context, what string, fill func() error) error {
	if content, err := s.DataState(); err != nil {
		return err
	} else if content != Empty {
		return fmt.Errorf("%s: %s already exists", what, s.DataDir())
	}
	err := s.requireIdle(ctx)
	if err == nil {
		err = removeAll(s.CloneDir())
	}
	if err == nil {
		err = fill()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", what, err), s.removeClone())
	}
	if err := errors.Join(syncDir(s.CloneDir()), os.Rename(s.CloneDir(), s.DataDir())); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return syncDir(s.options.Volume)
}

// requireIdle returns an error while a process uses the data directory.
func (s *Server) requireIdle(ctx context.Context) error {
	if idle, err := s.isIdle(); err != nil || idle {
		return errors.Join(err, ctx.Err())
	}
	return fmt.Errorf("%w: stop PostgreSQL first", errInUse)
}

// removeClone removes an incomplete clone to free its space.
func (s *Server) removeClone() error {
	if err := removeAll(s.CloneDir()); err != nil {
		return fmt.Errorf("remove the incomplete clone: %w", err)
	}
	return nil
}

// Remove deletes the data directory of a stopped server, so the instance can be cloned again. It renames the directory
// first: after a crash, the remains are not mistaken for a data directory.
func (s *Server) Remove(ctx context.Context) error {
	if err := s.requireIdle(ctx); err != nil {
		return fmt.Errorf("remove the data directory: %w", err)
	}
	if err := removeAll(s.CloneDir()); err != nil {
		return fmt.Errorf("remove the data directory: %w", err)
	}
	if err := os.Rename(s.DataDir(), s.CloneDir()); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("remove the data directory: %w", err)
	}
	if err := errors.Join(syncDir(s.options.Volume), removeAll(s.CloneDir())); err != nil {
		return fmt.Errorf("remove the data directory: %w", err)
	}
	return nil
}
