// Package server runs one PostgreSQL server: its programs, its data directory and its processes. It knows neither
// Kubernetes nor who is primary; it does what it is told, bounded by the caller's context.
//
// Nothing survives its owner: the postmaster is stopped when this process ends, and Kill ends with an error unless no
// process is left that could write to the data directory. What proves it is a lock on a file of the volume: every
// process of PostgreSQL inherits it from the postmaster, and the kernel lets go of it with the last of them.
package server

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

// Options say where a server lives.
type Options struct {
	Binaries Binaries
	// Volume is a folder for data only; the data directory is made in it.
	Volume string
	// RunDir is a folder for the socket and the configuration; it need not survive a restart.
	RunDir string
	// Credential is whom PostgreSQL runs as; nil is the user of this process, who must not be root.
	Credential *syscall.Credential
	// Output receives what PostgreSQL and its tools write, line by line; nil discards it. See Log.
	Output io.Writer
}

// Server is a server that may or may not run.
type Server struct {
	options Options

	// scan is one of the write-ahead log that was interrupted.
	scanMutex sync.Mutex
	scan      wal.Scan
}

// Names in the volume.
const (
	dataName  = "pgdata"
	cloneName = "pgdata.clone"
	oldName   = "pgdata.old"
	// keptPrefix begins the names of data that were put aside for people.
	keptPrefix = "pgdata.kept-"
	lockName   = "pgdata.lock"
)

// New makes the folders that are missing, with the permissions that PostgreSQL wants.
func New(o Options) (*Server, error) {
	if o.Credential == nil && os.Getuid() == 0 {
		return nil, errors.New("PostgreSQL does not run as root: run as another user")
	}
	if !filepath.IsAbs(o.Volume) || !filepath.IsAbs(o.RunDir) {
		return nil, fmt.Errorf("the folders %q and %q: want absolute paths", o.Volume, o.RunDir)
	}
	if o.Output == nil {
		o.Output = io.Discard
	}
	s := &Server{options: o}
	for _, dir := range []string{o.Volume, o.RunDir} {
		if err := s.makeDir(dir); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Server) makeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil // a mounted volume keeps the owner and the mode that it has
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return s.chown(dir)
}

// DataDir is PostgreSQL's data directory.
func (s *Server) DataDir() string { return filepath.Join(s.options.Volume, dataName) }

// CloneDir is what is to become the data directory. Without a Clone or Init under way it is a leftover.
func (s *Server) CloneDir() string { return filepath.Join(s.options.Volume, cloneName) }

// SocketDir is where the socket is.
func (s *Server) SocketDir() string { return s.options.RunDir }

// ConfigDir is where the configuration is.
func (s *Server) ConfigDir() string { return s.options.RunDir }

func (s *Server) lockFile() string { return filepath.Join(s.options.Volume, lockName) }

// Configure writes the files of the configuration that changed, and says whether any did. A running server knows after
// Reload.
func (s *Server) Configure(files config.Files) (bool, error) {
	changed := false
	for _, name := range []string{config.HBAFile, config.IdentFile, config.ConfFile} {
		path := filepath.Join(s.ConfigDir(), name)
		if current, err := os.ReadFile(path); err == nil && string(current) == files[name] {
			continue
		}
		if err := s.write(path, []byte(files[name])); err != nil {
			return changed, fmt.Errorf("write the configuration: %w", err)
		}
		changed = true
	}
	return changed, nil
}

// Disk is the space of a volume in bytes, as an unprivileged user has it.
type Disk struct{ Size, Free int64 }

// Disk measures the data's volume.
func (s *Server) Disk() (Disk, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(s.options.Volume, &stat); err != nil {
		return Disk{}, fmt.Errorf("measure the volume: %w", err)
	}
	return Disk{Size: int64(stat.Blocks) * stat.Bsize, Free: int64(stat.Bavail) * stat.Bsize}, nil //nolint:gosec // no volume is that large
}
