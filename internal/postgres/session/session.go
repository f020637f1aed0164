// Package session asks and tells a running PostgreSQL server, through its socket. search_path is pg_catalog from the
// first message on, so that nothing a user creates is ever called by it.
package session

import (
	"context"
	"errors"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

// Options say which server, and as whom.
type Options struct {
	// SocketDir and Port name the socket; port 0 is 5432.
	SocketDir string
	Port      int
	// User is config.Superuser when empty, Database is "postgres" when empty.
	User, Database string
	// ApplicationName is shown in pg_stat_activity; "fettle-agent" when empty.
	ApplicationName string
	// StatementTimeout bounds each statement on the server too; 0 is 10 s.
	StatementTimeout time.Duration
}

// Client is one connection, made when it is needed and again when it was lost. Calls wait for each other; each is bounded
// by its context. Use one for each purpose that must not wait for another, such as the heartbeat.
type Client struct{}

// New connects to nothing yet.
func New(_ Options) *Client { return &Client{} }

// Close ends the connection. The client can be used again.
func (c *Client) Close(_ context.Context) {}

// Reasons why a server did not do what it was asked, for errors.Is.
var (
	// ErrDiskFull means there is no space left. The server is alive: this is no reason to fail over.
	ErrDiskFull = errors.New("no space left on the volume: grow it")
	// ErrReadOnly means that the server is a standby.
	ErrReadOnly = errors.New("the server is read-only")
	// ErrFilesystem means that the data can't be written: a read-only or failing filesystem.
	ErrFilesystem = errors.New("the server can't write to its volume")
	// ErrUnavailable means that the server takes no connections: it is down, starting or stopping.
	ErrUnavailable = errors.New("the server takes no connections")
)

// Status is what a server tells about itself.
type Status struct {
	SystemID   string
	InRecovery bool
	// Timeline is that of the primary, or the one a standby receives or replays, whichever is later.
	Timeline wal.Timeline
	// Written is a primary's own position; Received (flushed to disk) and Replayed are a standby's, 0 on a primary.
	Written, Received, Replayed wal.LSN
	// ReplayPaused is set while a standby's replay is stopped.
	ReplayPaused bool
	// LastReplay is when the last transaction that was replayed committed, by the primary's clock; zero for none.
	LastReplay time.Time
	// Receiver is the state of a standby's WAL receiver; nil without one.
	Receiver *Receiver
	// Senders are the connected standbys.
	Senders []Sender
	// PendingRestart names the parameters that wait for a restart.
	PendingRestart []string
	// Synchronous is synchronous_standby_names as it is in effect.
	Synchronous string
	// StartedAt is when the postmaster started.
	StartedAt time.Time
}

// Receiver is a row of pg_stat_wal_receiver.
type Receiver struct {
	PID int
	// State is streaming, waiting, starting, restarting or stopping.
	State    string
	Host     string
	Slot     string
	Timeline wal.Timeline
	Flushed  wal.LSN
	// LastMessage is when the last message arrived, by the standby's clock; zero for never.
	LastMessage time.Time
}

// Sender is a row of pg_stat_replication.
type Sender struct {
	PID int
	// Name is the application_name: config.Settings.ClusterName of the standby.
	Name, Address string
	// State is startup, catchup, streaming, backup or stopping; SyncState is async, potential, sync or quorum.
	State, SyncState                 string
	Sent, Written, Flushed, Replayed wal.LSN
	WriteLag, FlushLag, ReplayLag    time.Duration
}

// Status asks for all of it at once.
func (c *Client) Status(_ context.Context) (Status, error) { return Status{}, errors.ErrUnsupported }

// Heartbeat commits a row on a primary, on its own disk only. The error is one of the reasons above where it is known; it
// is context.DeadlineExceeded when the server did not answer in time.
func (c *Client) Heartbeat(_ context.Context) error { return errors.ErrUnsupported }

// InRecovery says whether the server is a standby.
func (c *Client) InRecovery(_ context.Context) (bool, error) { return false, errors.ErrUnsupported }

// WaitPrimary waits until the server is no standby any more.
func (c *Client) WaitPrimary(_ context.Context) error { return errors.ErrUnsupported }

// Checkpoint writes a checkpoint, so that others can rewind to this server.
func (c *Client) Checkpoint(_ context.Context) error { return errors.ErrUnsupported }

// WaitSetting waits until a parameter has a value in effect, after a reload.
func (c *Client) WaitSetting(_ context.Context, _, _ string) error { return errors.ErrUnsupported }

// EndReceiver ends the WAL receiver and waits until there is none. It comes back unless the configuration has no
// upstream any more: reload that first.
func (c *Client) EndReceiver(_ context.Context) error { return errors.ErrUnsupported }

// EnsureSlots makes the physical slots that are missing, with their segments reserved from now on, and drops those of
// Fettle's (config.SlotName) that are not wanted, unless they are in use. It says what it changed.
func (c *Client) EnsureSlots(_ context.Context, _ []string) ([]string, error) {
	return nil, errors.ErrUnsupported
}

// Prepare makes what Fettle needs on a primary: its schema and roles, see package config. Nothing is written when it is all there.
func (c *Client) Prepare(_ context.Context) error { return errors.ErrUnsupported }

// ChangedFiles names parameters whose value comes from somewhere else than the files of config, as by ALTER SYSTEM.
func (c *Client) ForeignSettings(_ context.Context) ([]string, error) { return nil, errors.ErrUnsupported }

// Role is a role as it is wanted. It is never a superuser.
type Role struct {
	Name string
	// Verifier is what scram.Verifier made; "" leaves the password alone.
	Verifier string
	// Login, CreateDB, CreateRole, Replication and BypassRLS are privileges; NoInherit takes away that of members.
	Login, NoInherit, CreateDB, CreateRole, Replication, BypassRLS bool
	// ConnectionLimit is -1 for none.
	ConnectionLimit int
	// MemberOf are the roles that it is in; others are left alone when nil, and revoked otherwise.
	MemberOf []string
}

// EnsureRoles makes and changes roles. It says which, and sends no statement that would change nothing. Roles that are
// not named are left alone.
func (c *Client) EnsureRoles(_ context.Context, _ []Role) ([]string, error) {
	return nil, errors.ErrUnsupported
}

// DropRole removes a role that owns nothing. Without such a role it does nothing.
func (c *Client) DropRole(_ context.Context, _ string) error { return errors.ErrUnsupported }

// Database is a database as it is wanted.
type Database struct {
	Name string
	// Owner is a role that exists.
	Owner string
	// Encoding, Locale and Template only matter when it is made; "" takes those of the server.
	Encoding, Locale, Template string
	Extensions                 []Extension
}

// Extension is one of a database.
type Extension struct {
	Name string
	// Version is "" for whatever is there or the default.
	Version string
	// Schema is "" for whatever it is in or the default.
	Schema string
}

// EnsureDatabases makes databases, sets their owners and makes their extensions. It says what it changed, and sends no
// statement that would change nothing. Databases and extensions that are not named are left alone.
func (c *Client) EnsureDatabases(_ context.Context, _ []Database) ([]string, error) {
	return nil, errors.ErrUnsupported
}

// DropDatabase removes a database and ends its sessions. Without such a database it does nothing.
func (c *Client) DropDatabase(_ context.Context, _ string) error { return errors.ErrUnsupported }

// CheckName says why a name can't be that of a role, database or extension: empty, longer than 63 bytes, or with
// characters that are not printable.
func CheckName(_ string) error { return errors.ErrUnsupported }

var _ = config.Superuser
