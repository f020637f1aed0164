// Package config decides how a PostgreSQL server is configured: postgresql.conf, pg_hba.conf and pg_ident.conf, and which
// parameters its users may set. It is pure. Nothing that a user writes is copied as it is: names are looked up, values
// are quoted, and each takes one line.
package config

import (
	"strconv"
	"strings"
)

// The versions of PostgreSQL that are supported.
const (
	MinMajor = 13
	MaxMajor = 18
)

// The roles that Fettle makes for itself.
const (
	// Superuser is whom the agent connects as, through the socket only.
	Superuser = "postgres"
	// ReplicationUser is whom the instances connect to each other as, with a client certificate of this common name.
	ReplicationUser = "streaming_replica"
	// MonitorUser reads the metrics, through the socket only. It is a member of pg_monitor.
	MonitorUser = "fettle_monitor"
)

// The names of the files that Render makes.
const (
	ConfFile  = "postgresql.conf"
	HBAFile   = "pg_hba.conf"
	IdentFile = "pg_ident.conf"
)

// identMap is the map in pg_ident.conf that says which users of the system may be which roles.
const identMap = "fettle"

// Settings is all that the configuration of one instance is made of.
type Settings struct {
	// Major is the version of the server, MinMajor to MaxMajor.
	Major int
	// DataDir is the data directory, ConfigDir where the three files lie, and SocketDir where the socket is made.
	// All are absolute.
	DataDir, ConfigDir, SocketDir string
	// Port is where the server listens, on all addresses of the pod; 0 is 5432. ListenAddresses is "*" when empty.
	Port            int
	ListenAddresses string
	// ClusterName tells the instance in its processes' titles, and is the application_name of its WAL receiver: by it
	// the primary counts synchronous standbys. It is the name of the pod.
	ClusterName string
	// Instances is how many there are, for the number of slots and senders.
	Instances int
	// MemoryLimit is that of the container in bytes; 0 when there is none.
	MemoryLimit int64
	// VolumeSize is that of the data's volume in bytes: it bounds what slots may keep. 0 when it is not known.
	VolumeSize int64
	// WALSegment is the size of a segment of the write-ahead log in bytes; 0 is 16 MiB.
	WALSegment int64
	// Parameters are the user's. Render checks them as CheckParameters does.
	Parameters map[string]string
	// Minimums are what a standby must have at least: what its primary had, as the control file tells. Parameters below are
	// raised. The zero value is for a primary.
	Minimums Minimums
	// TLS says how clients connect. Without a certificate the server takes connections by its socket only.
	TLS TLS
	// Upstream is whom the instance follows when it is a standby. nil is nobody, which also ends a WAL receiver.
	Upstream *Upstream
	// Synchronous says who has to acknowledge a commit. nil is nobody.
	Synchronous *Synchronous
	// ArchiveCommand and RestoreCommand are PostgreSQL's archive_command and restore_command; "" archives or restores nothing.
	// The former is also given history files that only reserve a timeline (they have no line but a comment): where a file of that
	// name exists already, it must keep that one and succeed, and a real history file must replace a reservation.
	ArchiveCommand, RestoreCommand string
	// HBA are the user's rules, in order, after Fettle's own. Whom none of them fits is refused. Without any, everybody gets in
	// with a password, over TLS.
	HBA []Rule
	// LogToken begins each line that the server logs, so that nobody can forge one by a user name with a line break. It is
	// of letters and digits, and new in each life of the agent; see server.Log.
	LogToken string
	// SystemUsers are the names of the system's users that may be Superuser and MonitorUser through the socket.
	SystemUsers []string
}

// Minimums are parameters that a standby must have at least as high as its primary, or it stops replaying.
type Minimums struct {
	MaxConnections, MaxWorkerProcesses, MaxWALSenders, MaxPreparedTransactions, MaxLocksPerTransaction int
}

// TLS names the server's certificate and what it accepts.
type TLS struct {
	// CertFile, KeyFile and CAFile are absolute; the CA is that of the client certificates.
	CertFile, KeyFile, CAFile string
}

// Upstream is the primary as a standby sees it.
type Upstream struct {
	Host string
	Port int
	// Address is the IP address at which Host is reached. Without it PostgreSQL looks Host up, and can't be interrupted while
	// nobody answers: the cluster's DNS may be gone together with a node. "" for none.
	Address string
	// Slot is the physical slot that the primary keeps for this instance; "" for none.
	Slot string
	// CertFile, KeyFile and CAFile are this instance's client certificate, and the CA of the primary's. The primary's
	// certificate must be for Host, unless that is an IP address: then only the CA counts. libpq refuses a KeyFile
	// that others can read.
	CertFile, KeyFile, CAFile string
}

// Synchronous is who has to acknowledge a commit before its client learns of it: any Number of the Names.
type Synchronous struct {
	Number int
	// Names are ClusterNames of standbys. With none of them, nobody has to.
	Names []string
}

// Auth is how a client proves who it is.
type Auth string

// The ways in. All need TLS.
const (
	// Password is by SCRAM-SHA-256.
	Password Auth = "scram-sha-256"
	// Certificate is by a client certificate whose common name is the role.
	Certificate Auth = "cert"
	// Reject lets nobody in.
	Reject Auth = "reject"
)

// Rule lets clients in, or keeps them out. The first that fits counts.
type Rule struct {
	// Databases and Users name what it is about, each literally; none means all. Replication can't be named.
	Databases, Users []string
	// Address is a network such as 10.0.0.0/8, or an address; "" means all.
	Address string
	Auth    Auth
}

// Files are the contents of the three files, by name: ConfFile, HBAFile and IdentFile.
type Files map[string]string

// slotPrefix begins the names of Fettle's slots.
const slotPrefix = "fettle_"

// SlotName is the name of the physical slot that a primary keeps for the instance with the ordinal.
func SlotName(ordinal int) string {
	return slotPrefix + strconv.Itoa(ordinal)
}

// IsSlotName says whether a slot is one of SlotName.
func IsSlotName(name string) bool {
	ordinal, found := strings.CutPrefix(name, slotPrefix)
	n, err := strconv.Atoi(ordinal)
	return found && err == nil && n >= 0
}
