// Package server runs one PostgreSQL server: its programs, its data directory and its processes. It knows neither
// Kubernetes nor the election. Each operation is bounded by the caller's context.
//
// The server never outlives this process: the kernel stops the postmaster when this process exits. Kill returns nil only
// if no process is left that could write to the data directory. The proof is a lock on a file of the volume: every
// PostgreSQL process inherits it from the postmaster, and the kernel releases it with the last of them.
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

// Options of a Server.
type Options struct {
	Binaries Binaries
	// Volume is a directory for data only. The data directory is created in it.
	Volume string
	// RunDir is a directory for the socket and the configuration. It need not survive a restart.
	RunDir string
	// Credential is the user that PostgreSQL runs as. nil means the user of this process, who must not be root.
	Credential *syscall.Credential
	// Output receives the output of PostgreSQL and its tools in complete lines. nil discards it. See Log.
	Output io.Writer
}

// Server is a PostgreSQL server, running or not.
type Server struct {
	options Options
	// dataName is the name of the data directory in the volume.
	dataName string

	// scan is an interrupted WAL scan.
	scanMutex sync.Mutex
	scan      wal.Scan
}

// Names in the volume.
const (
	dataName  = "pgdata"
	cloneName = "pgdata.clone"
	oldName   = "pgdata.old"
	// keptPrefix is the prefix of directories with old data that are kept.
	keptPrefix = "pgdata.kept-"
	lockName   = "pgdata.lock"
)

// New creates missing directories with the permissions that PostgreSQL requires.
func New(o Options) (*Server, error) {
	if o.Credential == nil && os.Getuid() == 0 {
		return nil, errors.New("PostgreSQL does not run as root: set runAsUser to another user")
	}
	if !filepath.IsAbs(o.Volume) || !filepath.IsAbs(o.RunDir) {
		return nil, fmt.Errorf("volume %q and run directory %q must be absolute paths", o.Volume, o.RunDir)
	}
	if o.Output == nil {
		o.Output = io.Discard
	}
	s := &Server{options: o, dataName: dataName}
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
func (s *Server) DataDir() string { return filepath.Join(s.options.Volume, s.dataName) }

// CloneDir becomes the data directory when Clone or Init completes. At other times it is a leftover.
func (s *Server) CloneDir() string { return filepath.Join(s.options.Volume, cloneName) }

// SocketDir is the directory of the socket.
func (s *Server) SocketDir() string { return s.options.RunDir }

// ConfigDir is the directory of the configuration.
func (s *Server) ConfigDir() string { return s.options.RunDir }

func (s *Server) lockFile() string { return filepath.Join(s.options.Volume, lockName) }

// Configure writes the configuration files that changed and returns whether any did. Call Reload on a running server.
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

// Disk is the space of a volume in bytes, as available to unprivileged users.
type Disk struct{ Size, Free int64 }

// Disk returns the space of the data volume.
func (s *Server) Disk() (Disk, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(s.options.Volume, &stat); err != nil {
		return Disk{}, fmt.Errorf("read the space of the volume: %w", err)
	}
	return Disk{Size: int64(stat.Blocks) * stat.Bsize, Free: int64(stat.Bavail) * stat.Bsize}, nil //nolint:gosec // no volume is that large
}
