// Package server runs one PostgreSQL server: its programs, its data directory and its processes. It knows neither
// Kubernetes nor who is primary; it does what it is told, bounded by the caller's context.
//
// Nothing survives its owner: the postmaster is killed when this process ends, and Kill ends with an error unless no
// process is left that could write to the data directory.
package server

import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

// Binaries are the programs of one installation of PostgreSQL.
type Binaries struct {
	// Dir is the folder they lie in.
	Dir string
	// Major and Version are what `postgres --version` says: 15 and 15.18.
	Major   int
	Version string
}

// FindBinaries looks for an installation: in the folders of the official images, of Debian and in PATH. major 0 takes
// the newest.
func FindBinaries(_ context.Context, _ int) (Binaries, error) {
	return Binaries{}, errors.ErrUnsupported
}

// Options say where a server lives.
type Options struct {
	Binaries Binaries
	// Volume is a folder for data only; the data directory is made in it.
	Volume string
	// Run is a folder for the socket and the configuration; it need not survive a restart.
	Run string
	// Port names the socket; 0 is 5432.
	Port int
	// Credential is whom PostgreSQL runs as; nil is the user of this process.
	Credential *syscall.Credential
	// Output receives what PostgreSQL and its tools write, line by line; nil discards it.
	Output io.Writer
}

// Server is a server that may or may not run.
type Server struct {
	options Options
}

// New makes the folders that are missing, with the permissions that PostgreSQL wants.
func New(_ Options) (*Server, error) { return nil, errors.ErrUnsupported }

// Folders and files of a server.
func (s *Server) DataDir() string   { return s.options.Volume + "/pgdata" }
func (s *Server) CloneDir() string  { return s.options.Volume + "/pgdata.clone" }
func (s *Server) SocketDir() string { return s.options.Run }
func (s *Server) ConfigDir() string { return s.options.Run }

// Content says what a data directory holds.
type Content string

// What it may hold.
const (
	// Empty has no data directory, or an empty one.
	Empty Content = "Empty"
	// Complete is a data directory that a server can start from.
	Complete Content = "Complete"
	// Broken holds something that is no whole data directory. It is never removed without being asked.
	Broken Content = "Broken"
)

// Content looks at the data directory. The error says why it can't be used: it could not be read, is broken, or is of
// another major version than the binaries.
func (s *Server) Content() (Content, error) { return "", errors.ErrUnsupported }

// InitOptions say how a new data directory is made.
type InitOptions struct {
	// Locale is of the C library; C.UTF-8 when empty. With ICULocale the provider is ICU (from version 15).
	Locale, ICULocale string
	// WALSegmentSize in MiB; 0 is 16.
	WALSegmentSize int
}

// Init makes a data directory with checksums. It is whole or not there: an interrupted one is made again.
func (s *Server) Init(_ context.Context, _ InitOptions) error { return errors.ErrUnsupported }

// Source is a running server to copy from, reached by TLS with a client certificate as config.ReplicationUser.
type Source struct {
	config.Upstream
	// ApplicationName is shown by the source.
	ApplicationName string
	// MaxRate bounds a copy, in KiB/s; 0 does not.
	MaxRate int
}

// Clone copies a running server into the data directory, which must be Empty. It is whole or not there: what an
// interrupted one left is removed first.
func (s *Server) Clone(_ context.Context, _ Source) error { return errors.ErrUnsupported }

// Rewind makes the data directory, of a stopped server, one that can follow source: everything after the point where
// their histories part is undone. If it fails, the data directory may not be usable any more. restore says that
// segments may be fetched by the restore command.
func (s *Server) Rewind(_ context.Context, _ Source, _ config.Restore) error {
	return errors.ErrUnsupported
}

// Remove deletes the data directory of a stopped server, so that it can be cloned again.
func (s *Server) Remove(_ context.Context) error { return errors.ErrUnsupported }

// Configure writes the files of the configuration that changed, and says whether any did. A running server knows after
// Reload.
func (s *Server) Configure(_ config.Files) (bool, error) { return false, errors.ErrUnsupported }

// SetStandby decides whether the server, when it is started, is a standby.
func (s *Server) SetStandby(_ bool) error { return errors.ErrUnsupported }

// SetRecovery decides whether the server, when it is started, recovers from the archive up to a target and is then
// promoted.
func (s *Server) SetRecovery(_ bool) error { return errors.ErrUnsupported }

// Standby says whether the data directory is that of a standby.
func (s *Server) Standby() (bool, error) { return false, errors.ErrUnsupported }

// ControlData is what pg_controldata tells.
type ControlData struct {
	SystemID string
	// State is such as "in production", "shut down", "in archive recovery".
	State string
	// Timeline and Checkpoint are those of the last checkpoint; Redo is where recovery would begin.
	Timeline   wal.Timeline
	Checkpoint wal.LSN
	Redo       wal.LSN
	// MinRecovery is how far a standby has to replay before it is consistent, and on which timeline.
	MinRecovery         wal.LSN
	MinRecoveryTimeline wal.Timeline
	// CheckpointTime is when the last checkpoint was taken, by the server's clock.
	CheckpointTime time.Time
	Checksums      bool
	WALSegmentSize int64
}

// ControlData reads the control file, of a running or a stopped server.
func (s *Server) ControlData(_ context.Context) (ControlData, error) {
	return ControlData{}, errors.ErrUnsupported
}

// Position is the furthest that the data directory of a stopped server is known to have got: the end of the last record that can be read,
// at least what the control file says.
func (s *Server) Position(_ context.Context) (wal.Timeline, wal.LSN, error) {
	return 0, 0, errors.ErrUnsupported
}

// History reads the history of a timeline from the data directory. Timeline 1 has an empty one. The error is
// os.ErrNotExist where the file is missing.
func (s *Server) History(_ wal.Timeline) (wal.History, error) { return nil, errors.ErrUnsupported }

// Disk is the space of a volume in bytes, as an unprivileged user has it.
type Disk struct{ Size, Free int64 }

// Disk measures the data's volume.
func (s *Server) Disk() (Disk, error) { return Disk{}, errors.ErrUnsupported }

// KillLeftovers ends processes of earlier lives that still use the data directory; call it before the first Start. It
// returns when none is left, and an error if that can't be reached within the context.
func (s *Server) KillLeftovers(_ context.Context) error { return errors.ErrUnsupported }

// Start starts the postmaster and returns at once. What an earlier life left behind (postmaster.pid, sockets) is removed
// if nothing uses the data directory any more.
func (s *Server) Start(_ context.Context) (*Process, error) { return nil, errors.ErrUnsupported }

// Process is a started postmaster.
type Process struct{}

// StopMode is how a server is asked to stop.
type StopMode string

// The modes of PostgreSQL.
const (
	// Smart waits for clients to leave.
	Smart StopMode = "smart"
	// Fast rolls open transactions back, sends everything to the standbys and writes a checkpoint.
	Fast StopMode = "fast"
	// Immediate stops without a checkpoint, as after a crash.
	Immediate StopMode = "immediate"
)

// Exit tells how a postmaster ended.
type Exit struct {
	// Code is its exit code, -1 if a signal ended it.
	Code   int
	Signal syscall.Signal
	At     time.Time
}

// PID is that of the postmaster.
func (p *Process) PID() int { return 0 }

// Done is closed when the postmaster has ended. Its children may outlive it for a moment: Kill waits for them too.
func (p *Process) Done() <-chan struct{} { return nil }

// Exit tells how it ended; only after Done.
func (p *Process) Exit() Exit { return Exit{} }

// WaitReady waits until the server takes connections: as a primary, or as a consistent standby. It ends early with an
// error when the postmaster ends.
func (p *Process) WaitReady(_ context.Context) error { return errors.ErrUnsupported }

// Stop asks the server to stop and waits until neither the postmaster nor a child of it is left. At the context's end it
// returns its error, and the server may still be stopping: ask again in a harder mode, or Kill.
func (p *Process) Stop(_ context.Context, _ StopMode) error { return errors.ErrUnsupported }

// Fence stops the server immediately, and kills what is left of it after grace. It returns nil only if nothing is left
// that could write.
func (p *Process) Fence(_ context.Context, _ time.Duration) error { return errors.ErrUnsupported }

// Kill ends the postmaster and all its children at once. It returns nil only if nothing is left that could write.
func (p *Process) Kill(_ context.Context) error { return errors.ErrUnsupported }

// Reload has the server read its configuration again.
func (p *Process) Reload() error { return errors.ErrUnsupported }

// Promote asks a standby to become a primary and returns at once. session.Client.WaitPrimary waits until it is one.
func (p *Process) Promote() error { return errors.ErrUnsupported }
