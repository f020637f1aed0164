// Package agentapi is the API of the agents of a PostgreSQL cluster, used by the other agents and the operator: JSON over
// HTTPS. Both sides present a certificate of the cluster's CA (see package pki). Only the verifiers of roles are secret.
package agentapi

import (
	"time"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/election"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

// Paths of the API.
const (
	PathStatus   = "/v1/status"
	PathFailsafe = "/v1/failsafe"
	PathRestart  = "/v1/restart"
	PathDesired  = "/v1/desired"
)

// Port of the agents.
const Port = 8443

// Role of an instance, as reported by its PostgreSQL.
type Role string

// Roles. An instance whose PostgreSQL does not respond has none.
const (
	Primary Role = "primary"
	Replica Role = "replica"
)

// Phase is the state of PostgreSQL as managed by the agent.
type Phase string

// Phases.
const (
	Starting  Phase = "Starting"
	Running   Phase = "Running"
	Stopping  Phase = "Stopping"
	Stopped   Phase = "Stopped"
	Cloning   Phase = "Cloning"
	Rewinding Phase = "Rewinding"
	// Initializing is initdb, or another way to create the cluster's first data.
	Initializing Phase = "Initializing"
	// Fenced means stopped because of an annotation.
	Fenced Phase = "Fenced"
	// Unresponsive means that PostgreSQL runs but does not respond.
	Unresponsive Phase = "Hung"
)

// Status is the state of an instance as seen by its agent.
type Status struct {
	Pod    string `json:"pod"`
	PodUID string `json:"podUID"`
	// ServerVersion is the version of PostgreSQL, such as 15.14.
	ServerVersion string `json:"serverVersion,omitempty"`

	Phase Phase `json:"phase"`
	Role  Role  `json:"role,omitempty"`
	// Ready is the result of the readiness probe.
	Ready bool `json:"ready"`
	// Message says what is wrong or pending and what to do. It is empty if all is well.
	Message string `json:"message,omitempty"`
	// Reason is the reason for a condition, if Message is about the source of pg_basebackup.
	Reason string `json:"reason,omitempty"`

	// Timeline and the positions describe the data directory. They are 0 if there is none.
	Timeline wal.Timeline `json:"timeline,omitempty"`
	// Received is the end of the WAL on this instance's disk. Replayed is the replay position.
	Received wal.LSN `json:"received,omitempty"`
	Replayed wal.LSN `json:"replayed,omitempty"`
	// Receiver is true while a WAL receiver runs.
	Receiver bool `json:"receiver,omitempty"`

	// Election is the state that the election uses.
	Election election.State `json:"election,omitzero"`

	// Checkpointed is true on a primary after the first checkpoint on its timeline. Before that, pg_rewind reads the
	// previous timeline from the control file.
	Checkpointed bool `json:"checkpointed,omitempty"`

	// APIReachable is true if the agent's last attempt to read the Lease succeeded in time.
	APIReachable bool `json:"apiReachable"`
	// Unauthorized is true if the API server rejected the agent's token in its last response about the Lease, as it does
	// after the ServiceAccount was deleted. A new ServiceAccount of the same name does not help: the token belongs to the
	// old one.
	Unauthorized bool `json:"unauthorized,omitempty"`
	// HoldsLease is true while this agent may run a primary.
	HoldsLease bool `json:"holdsLease"`

	// PendingRestart are the parameters that need a restart.
	PendingRestart []string `json:"pendingRestart,omitempty"`
	// Generation is the generation of the PostgreSQL object whose configuration is in effect.
	Generation int64 `json:"generation,omitempty"`
	// ConfigError says why the latest generation is not in effect.
	ConfigError string `json:"configError,omitempty"`
	// Sync is the quorum in effect on a primary. nil if there is none.
	Sync *Sync `json:"sync,omitempty"`
	// Archive is the state of WAL archiving. nil while spec.backup is not enabled, and from agents that cannot archive.
	Archive *Archive `json:"archive,omitempty"`
	// Progress is that of the base backup which is restored to the volume, while it is copied and while WAL is replayed on it. It changes
	// every 10 seconds at most. nil otherwise, and from agents that do not count.
	Progress *backupv1alpha1.Progress `json:"progress,omitempty"`
	// NeedsReclone is true if the data cannot follow the primary, and a person must request the reclone.
	NeedsReclone bool `json:"needsReclone,omitempty"`
	// Applied is what was last applied without an error on a primary since its promotion. nil if nothing was.
	Applied *Applied `json:"applied,omitempty"`
	// Volumes is the number of the volumes that the Lease is about. 0 before the first read, and from agents that know no other volumes
	// than the first.
	Volumes int `json:"volumes,omitempty"`
	// DiskFull is true if PostgreSQL cannot write or was stopped because no space is left.
	DiskFull bool `json:"diskFull,omitempty"`
	// DiskFree and DiskTotal are those of the data volume, in bytes.
	DiskFree  uint64 `json:"diskFree,omitempty"`
	DiskTotal uint64 `json:"diskTotal,omitempty"`
}

// Archive is the state of WAL archiving. Only that of the primary says what the store has.
type Archive struct {
	// Reason is the reason of the condition Archiving. Message says what is wrong and what to do.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// FailingSince is when the first upload failed since the last success; zero if the last one succeeded.
	FailingSince time.Time `json:"failingSince,omitzero"`
	// LastSuccess is when a file was last stored. LastSegment is the last stored segment, and LastWritten when PostgreSQL wrote it last:
	// all commits before that are stored.
	LastSuccess time.Time `json:"lastSuccess,omitzero"`
	LastSegment string    `json:"lastSegment,omitempty"`
	LastWritten time.Time `json:"lastWritten,omitzero"`
	// Waiting is the number of WAL files that are not archived yet.
	Waiting int `json:"waiting,omitempty"`
}

// Applied is the hash of the Desired that a primary has applied, and the end of its WAL after that.
type Applied struct {
	Hash      string  `json:"hash"`
	InsertLSN wal.LSN `json:"insertLSN,omitempty"`
}

// Sync is a quorum of synchronous standbys: a commit waits for any Number of the Members, which are pod names.
type Sync struct {
	Number  int      `json:"number"`
	Members []string `json:"members"`
}

// FailsafeRequest is sent by the holder of the Lease when it cannot renew the Lease. The response is an election.Reply.
type FailsafeRequest struct {
	Pod    string `json:"pod"`
	PodUID string `json:"podUID"`
	// CanReadLease is true if the holder can read the Lease: the API server is reachable but rejects writes.
	CanReadLease bool `json:"reads,omitempty"`
}

// Desired is the desired content of a primary. Applying it is idempotent. Anything that is not listed is left unchanged.
type Desired struct {
	// Hash is of the operator's: the primary reports it back as Status.Applied.
	Hash      string            `json:"hash,omitempty"`
	Roles     []DesiredRole     `json:"roles,omitempty"`
	Databases []DesiredDatabase `json:"databases,omitempty"`
}

// DesiredRole is a role. An attribute that is false is removed.
type DesiredRole struct {
	Name string `json:"name"`
	// Verifier is SCRAM-SHA-256$... If empty, the password is left unchanged.
	Verifier string `json:"verifier,omitempty"`
	Login    bool   `json:"login,omitempty"`
	CreateDB bool   `json:"createDB,omitempty"`
	// ConnectionLimit is the maximum number of sessions. nil means no limit.
	ConnectionLimit *int32 `json:"connectionLimit,omitempty"`
	// MemberOf are the roles that it is a member of. nil (absent) leaves memberships unchanged, an empty list revokes all.
	MemberOf []string `json:"memberOf"`
	// SecondLogin is its second login, see config.SecondLogin. nil leaves it unchanged.
	SecondLogin *DesiredLogin `json:"second,omitempty"`
}

// DesiredLogin is a second login for a role, with its own password and the role's connection limit.
type DesiredLogin struct {
	// Verifier is SCRAM-SHA-256$... If empty, the password is left unchanged and a missing login is not created.
	Verifier string `json:"verifier,omitempty"`
	// Allowed is false to disable the login.
	Allowed bool `json:"allowed,omitempty"`
}

// DesiredDatabase is a database.
type DesiredDatabase struct {
	Name string `json:"name"`
	// Owner is a role, created before the database.
	Owner      string             `json:"owner,omitempty"`
	Extensions []DesiredExtension `json:"extensions,omitempty"`
}

// DesiredExtension is an extension of a database, in the version that the image contains.
type DesiredExtension struct {
	Name string `json:"name"`
}

// Kinds of items in a Result.
const (
	KindRole      = "Role"
	KindDatabase  = "Database"
	KindExtension = "Extension"
)

// Result is the response to PUT /v1/desired: one Item for each role, database and extension in the request.
type Result struct {
	Items []Item `json:"items"`
	// InsertLSN is the primary's WAL position after all changes. A standby that has replayed up to it has all changes.
	InsertLSN wal.LSN `json:"inserted,omitempty"`
}

// Item is the result for one object.
type Item struct {
	Kind string `json:"kind"`
	// Name is the name of the role or database. For an extension it is database/extension.
	Name string `json:"name"`
	// Changed is true if the object was changed.
	Changed bool `json:"changed,omitempty"`
	// Error is empty on success. Otherwise it says what is wrong and what to do.
	Error string `json:"error,omitempty"`
}
