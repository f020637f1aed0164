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

// DataState says what a data directory holds.
type DataState string

// What it may hold.
const (
	// Empty has no data directory, or an empty one.
	Empty DataState = "Empty"
	// Complete is a data directory that a server can start from.
	Complete DataState = "Complete"
	// Incomplete is a data directory that lacks what a server needs to start. It is never removed without being asked.
	Incomplete DataState = "Broken"
	// Unrecognized can't be read, is no data directory, or that of another version.
	Unrecognized DataState = "Foreign"
)

// DataState looks at the data directory. The error says why it can't be used: it could not be read, is broken, or is of
// another major version than the binaries.
func (s *Server) DataState() (DataState, error) {
	entries, err := os.ReadDir(s.DataDir())
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return Empty, nil
	}
	if err != nil {
		return Unrecognized, fmt.Errorf("look at the data directory: %w", err)
	}
	versionFile, err := os.ReadFile(filepath.Join(s.DataDir(), "PG_VERSION"))
	if errors.Is(err, os.ErrNotExist) {
		return Unrecognized, fmt.Errorf("%s has files, but is no data directory of PostgreSQL: is it the right volume?", s.DataDir())
	}
	if err != nil {
		return Unrecognized, fmt.Errorf("look at the data directory: %w", err)
	}
	if major := strings.TrimSpace(string(versionFile)); major != strconv.Itoa(s.options.Binaries.Major) {
		return Unrecognized, fmt.Errorf("the data is of PostgreSQL %s, and the image has %s: use an image of version %s",
			major, s.options.Binaries.Version, major)
	}
	control, err := os.Stat(filepath.Join(s.DataDir(), controlFile))
	if err != nil || control.Size() == 0 {
		return Incomplete, errors.Join(fmt.Errorf("the data directory %s has no control file: clone it again, or restore a backup", s.DataDir()), err)
	}
	return Complete, nil
}

// InitOptions say how a new data directory is made.
type InitOptions struct {
	// Locale is of the C library; C.UTF-8 when empty. With ICULocale the provider is ICU (from version 15).
	Locale, ICULocale string
	// WALSegmentSize in MiB; 0 is 16.
	WALSegmentSize int
}

// Init makes a data directory with checksums. It is whole or not there: an interrupted one is made again.
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
			return fmt.Errorf("PostgreSQL %d has no ICU locales for whole servers: use version 15 or later", s.options.Binaries.Major)
		}
		arguments = append(arguments, "--locale-provider=icu", "--icu-locale="+o.ICULocale)
	}
	if o.WALSegmentSize != 0 {
		arguments = append(arguments, "--wal-segsize="+strconv.Itoa(o.WALSegmentSize))
	}
	return s.createDataDir(ctx, "make a data directory", func() error {
		_, err := s.tool(ctx, toolOptions{holdLock: true}, "initdb", arguments...)
		return err
	})
}

// createDataDir has fill make the folder for clones, and turns it into the data directory when that is whole.
func (s *Server) createDataDir(ctx context.Context, what string, fill func() error) error {
	if content, err := s.DataState(); err != nil {
		return err
	} else if content != Empty {
		return fmt.Errorf("%s: there is one in %s already", what, s.DataDir())
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

// requireIdle is an error as long as something uses the data directory.
func (s *Server) requireIdle(ctx context.Context) error {
	if idle, err := s.isIdle(); err != nil || idle {
		return errors.Join(err, ctx.Err())
	}
	return fmt.Errorf("%w: stop PostgreSQL first", errInUse)
}

// removeClone removes a clone that did not become whole, to give its space back.
func (s *Server) removeClone() error {
	if err := removeAll(s.CloneDir()); err != nil {
		return fmt.Errorf("remove what is left: %w", err)
	}
	return nil
}

// Remove deletes the data directory of a stopped server, so that it can be cloned again. It is out of the way at once:
// after a crash meanwhile, what is left is not taken for one.
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
