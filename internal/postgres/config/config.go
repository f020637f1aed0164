// Package config renders the configuration of a PostgreSQL server: postgresql.conf, pg_hba.conf and pg_ident.conf. It
// defines which parameters users may set. It is pure. User input is never copied as is: names are looked up, values are
// quoted, and each takes one line.
package config

import (
	"strconv"
	"strings"
)

// Supported versions of PostgreSQL.
const (
	MinMajor = 13
	MaxMajor = 18
)

// Roles that Fettle creates for itself.
const (
	// Superuser is the role of the agent, only through the socket.
	Superuser = "postgres"
	// ReplicationUser is the role for connections between instances, with a client certificate of this common name.
	ReplicationUser = "streaming_replica"
	// MonitorUser reads the metrics, only through the socket. It is a member of pg_monitor.
	MonitorUser = "fettle_monitor"
)

// Names of the rendered files.
const (
	ConfFile  = "postgresql.conf"
	HBAFile   = "pg_hba.conf"
	IdentFile = "pg_ident.conf"
)

// identMap is the map in pg_ident.conf from operating system users to roles.
const identMap = "fettle"

// Settings are the input for the configuration of one instance.
type Settings struct {
	// Major is the major version of the server, MinMajor to MaxMajor.
	Major int
	// DataDir is the data directory, ConfigDir the directory of the three files, and SocketDir that of the socket. All are
	// absolute paths.
	DataDir, ConfigDir, SocketDir string
	// Port is the port of the server on all addresses of the pod. Defaults to 5432. ListenAddresses defaults to "*".
	Port            int
	ListenAddresses string
	// ClusterName is the pod name. It is shown in process titles and is the application_name of the WAL receiver, by which
	// the primary identifies synchronous standbys.
	ClusterName string
	// Instances is the number of instances, for the number of slots and WAL senders.
	Instances int
	// MemoryLimit is the memory limit of the container in bytes. 0 means no limit.
	MemoryLimit int64
	// VolumeSize is the size of the data volume in bytes, which limits the WAL kept for slots. 0 means unknown.
	VolumeSize int64
	// WALSegment is the WAL segment size in bytes. 0 means 16 MiB.
	WALSegment int64
	// Parameters are the user's parameters. Render validates them like CheckParameters.
	Parameters map[string]string
	// Minimums are the values that a standby needs at least: those of its primary, from the control file. Lower parameters
	// are raised. A primary uses the zero value.
	Minimums Minimums
	// TLS is the server's TLS configuration. Without a certificate the server accepts only socket connections.
	TLS TLS
	// Upstream is the primary that a standby follows. Without it the WAL receiver stops.
	Upstream *Upstream
	// Synchronous is the quorum that commits wait for. nil means none.
	Synchronous *Synchronous
	// ArchiveCommand and RestoreCommand are PostgreSQL's archive_command and restore_command. "" disables them. The
	// archive_command of standbys is run too, and has to succeed there once the file is archived.
	// archive_command also receives history files that only reserve a timeline: they contain only a comment. If a file of
	// that name exists, it must keep that file and succeed. A real history file must replace a reservation.
	ArchiveCommand, RestoreCommand string
	// ArchiveTimeout is how many seconds of writes may be missing in the archive, where WAL is archived to a store. 0 means no limit.
	ArchiveTimeout int
	// HBA are the user's rules, in order, after Fettle's own. Clients without a matching rule are rejected. Without any
	// rule, all roles can log in with a password over TLS.
	HBA []Rule
	// LogToken starts each log line, so that a user name with a line break cannot forge one. It consists of letters and
	// digits and is new for each run of the agent. See server.Log.
	LogToken string
	// SystemUsers are the operating system users that may log in as Superuser and MonitorUser through the socket.
	SystemUsers []string
}

// Minimums are parameters that must be at least as high on a standby as on its primary, or replay stops.
type Minimums struct {
	MaxConnections, MaxWorkerProcesses, MaxWALSenders, MaxPreparedTransactions, MaxLocksPerTransaction int
}

// TLS names the server's certificate and the CA of client certificates.
type TLS struct {
	// CertFile, KeyFile and CAFile are absolute paths. CAFile is the CA of client certificates.
	CertFile, KeyFile, CAFile string
}

// Upstream is how a standby connects to the primary.
type Upstream struct {
	Host string
	Port int
	// Address is the IP address of Host, or "". Without it PostgreSQL resolves Host, and cannot be interrupted if DNS does
	// not respond: cluster DNS may be lost together with a node.
	Address string
	// Slot is the physical replication slot on the primary for this instance, or "".
	Slot string
	// CertFile, KeyFile and CAFile are this instance's client certificate and the CA of the primary's certificate. That
	// certificate must be for Host. If Host is an IP address, only the CA is verified. libpq rejects a KeyFile that others
	// can read.
	CertFile, KeyFile, CAFile string
}

// Synchronous is the quorum of a commit: any Number of the standbys in Names must acknowledge it.
type Synchronous struct {
	Number int
	// Names are ClusterNames of standbys. If empty, commits do not wait.
	Names []string
}

// Auth is an authentication method.
type Auth string

// Authentication methods. All require TLS.
const (
	// Password is SCRAM-SHA-256.
	Password Auth = "scram-sha-256"
	// Certificate is a client certificate whose common name is the role.
	Certificate Auth = "cert"
	// Reject rejects the client.
	Reject Auth = "reject"
)

// Rule is a rule of pg_hba.conf. The first match counts.
type Rule struct {
	// Databases and Users are literal names. Empty means all. The keyword replication is not supported.
	Databases, Users []string
	// Address is a network such as 10.0.0.0/8, or an IP address. "" means all.
	Address string
	Auth    Auth
}

// Files are the contents of the three files by name: ConfFile, HBAFile and IdentFile.
type Files map[string]string

// slotPrefix is the prefix of Fettle's replication slots.
const slotPrefix = "fettle_"

// SlotName is the name of the physical slot for the instance with this ordinal.
func SlotName(ordinal int) string {
	return slotPrefix + strconv.Itoa(ordinal)
}

// IsSlotName returns whether a slot is one of Fettle's.
func IsSlotName(name string) bool {
	ordinal, found := strings.CutPrefix(name, slotPrefix)
	n, err := strconv.Atoi(ordinal)
	return found && err == nil && n >= 0
}
