// Package peer is how the agents of a PostgreSQL cluster and the operator speak with an agent: JSON over HTTPS, where both
// sides show a certificate of the cluster's own authority (see package pki). What is said here is never secret but for
// the verifiers of roles.
package agentapi

import (
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/election"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

// Paths of the protocol.
const (
	PathStatus   = "/v1/status"
	PathFailsafe = "/v1/failsafe"
	PathRestart  = "/v1/restart"
	PathDesired  = "/v1/desired"
)

// Port that agents listen on.
const Port = 8443

// Role of an instance, as its PostgreSQL says.
type Role string

// Roles. An instance whose PostgreSQL does not answer has none.
const (
	Primary Role = "primary"
	Replica Role = "replica"
)

// Phase is what an agent does with its PostgreSQL.
type Phase string

// Phases.
const (
	Starting  Phase = "Starting"
	Running   Phase = "Running"
	Stopping  Phase = "Stopping"
	Stopped   Phase = "Stopped"
	Cloning   Phase = "Cloning"
	Rewinding Phase = "Rewinding"
	// Initializing is initdb or another way to get the cluster's first data.
	Initializing Phase = "Initializing"
	// Fenced is stopped because someone asked for it by annotation.
	Fenced Phase = "Fenced"
	// Hung is running without an answer.
	Hung Phase = "Hung"
)

// Status is an instance as its agent sees it.
type Status struct {
	Pod    string `json:"pod"`
	PodUID string `json:"podUID"`
	// AgentVersion is the build of the agent, ServerVersion that of PostgreSQL such as 15.14, both for people.
	AgentVersion  string `json:"agentVersion,omitempty"`
	ServerVersion string `json:"serverVersion,omitempty"`

	Phase Phase `json:"phase"`
	Role  Role  `json:"role,omitempty"`
	// Ready is what the readiness probe says.
	Ready bool `json:"ready"`
	// Message says what is wrong or waited for and what to do, in one sentence; empty if all is well.
	Message string `json:"message,omitempty"`
	// Reason says it in one word, as a condition has it, where the message is about the server that the first data are a copy of.
	Reason string `json:"reason,omitempty"`

	// Data is true when there is a data directory; SystemID, Timeline and the positions are of it.
	Data     bool         `json:"data"`
	SystemID string       `json:"systemID,omitempty"`
	Timeline wal.Timeline `json:"timeline,omitempty"`
	// Received is the end of the WAL that is safe on this instance's disk; Replayed is as far as it was replayed.
	Received wal.LSN `json:"received,omitempty"`
	Replayed wal.LSN `json:"replayed,omitempty"`
	// Receiver is true while a WAL receiver streams.
	Receiver bool `json:"receiver,omitempty"`
	// ReplayLag is how old the last replayed commit is; 0 on a primary and where all that was received is replayed.
	ReplayLag time.Duration `json:"replayLagNanoseconds,omitempty"`

	// Election is what the agents elect by.
	Election election.State `json:"election,omitzero"`

	// Checkpointed is true on a primary that has taken a checkpoint on its timeline: before, pg_rewind would take it for one
	// on the timeline before.
	Checkpointed bool `json:"checkpointed,omitempty"`

	// APIReachable is true when this agent's last try to read the Lease succeeded within its time.
	APIReachable bool `json:"apiReachable"`
	// Unauthorized is true when the API server's last answer about the Lease was that it does not know whose token this is, as it
	// does when the ServiceAccount was deleted. Another one of its name does not help: the token is of the former.
	Unauthorized bool `json:"unauthorized,omitempty"`
	// HoldsLease is true while this agent may run a primary.
	HoldsLease bool `json:"holdsLease"`

	// PendingRestart are the names of parameters that take effect after a restart.
	PendingRestart []string `json:"pendingRestart,omitempty"`
	// Generation is the one of the PostgreSQL object whose configuration is in effect.
	Generation int64 `json:"generation,omitempty"`
	// ConfigError says why the newest generation is not in effect.
	ConfigError string `json:"configError,omitempty"`
	// Sync is the quorum in effect on a primary; nil where there is none.
	Sync *Sync `json:"sync,omitempty"`
	// NeedsReclone is true when the data can't follow the primary, and are not replaced unless a person asks for it.
	NeedsReclone bool `json:"needsReclone,omitempty"`
	// Applied is what was applied last without an error, on a primary since its promotion; nil where nothing was.
	Applied *Applied `json:"applied,omitempty"`
	// DiskFull is true when PostgreSQL can't write, or was ended, for want of space.
	DiskFull bool `json:"diskFull,omitempty"`
	// DiskFree and DiskTotal are of the data volume, in bytes.
	DiskFree  uint64 `json:"diskFree,omitempty"`
	DiskTotal uint64 `json:"diskTotal,omitempty"`
}

// Applied tells which Desired a primary has applied, and where its WAL ended then.
type Applied struct {
	Hash     string  `json:"hash"`
	Inserted wal.LSN `json:"inserted,omitempty"`
}

// Sync says whose acknowledgement a commit waits for: any Number of Members, which are pods.
type Sync struct {
	Number  int      `json:"number"`
	Members []string `json:"members"`
}

// FailsafeRequest tells who asks: the holder of the Lease, when it can't renew it. The answer is an election.Reply.
type FailsafeRequest struct {
	Pod    string `json:"pod"`
	PodUID string `json:"podUID"`
	// Reads is true when the holder can read the Lease, so that the API server takes no writes but is not out of its reach.
	Reads bool `json:"reads,omitempty"`
}

// Desired is what a primary should contain. It can be sent again at any time; what is there already is not touched.
// What is not named is left alone.
type Desired struct {
	// Hash is of the operator's: the primary reports it back as Status.Applied.
	Hash string `json:"hash,omitempty"`
	Roles     []DesiredRole     `json:"roles,omitempty"`
	Databases []DesiredDatabase `json:"databases,omitempty"`
}

// DesiredRole is a role. Zero values of the booleans withdraw what they stand for.
type DesiredRole struct {
	Name string `json:"name"`
	// Verifier is SCRAM-SHA-256$...; empty leaves the password alone.
	Verifier string `json:"verifier,omitempty"`
	Login    bool   `json:"login,omitempty"`
	CreateDB bool   `json:"createDB,omitempty"`
	// ConnectionLimit is how many sessions it may have; nil is no limit.
	ConnectionLimit *int32 `json:"connectionLimit,omitempty"`
	// MemberOf are the roles that it is in; nil (absent) leaves them alone, an empty list revokes all.
	MemberOf []string `json:"memberOf"`
	// Second is its second login, see config.SecondLogin; nil leaves that alone.
	Second *DesiredLogin `json:"second,omitempty"`
}

// DesiredLogin is a second way in as a role, with a password of its own and the role's limit of connections.
type DesiredLogin struct {
	// Verifier is SCRAM-SHA-256$...; empty leaves the password alone, and makes no login that is not there.
	Verifier string `json:"verifier,omitempty"`
	// Allowed is false to keep everybody out.
	Allowed bool `json:"allowed,omitempty"`
}

// DesiredDatabase is a database.
type DesiredDatabase struct {
	Name string `json:"name"`
	// Owner is a role, made before.
	Owner      string             `json:"owner,omitempty"`
	Extensions []DesiredExtension `json:"extensions,omitempty"`
}

// DesiredExtension is an extension of a database, of whatever version is there.
type DesiredExtension struct {
	Name string `json:"name"`
}

// Kinds of items in a Result.
const (
	KindRole      = "Role"
	KindDatabase  = "Database"
	KindExtension = "Extension"
)

// Result answers PUT /v1/desired: one Item for each role, database and extension that was named.
type Result struct {
	Items []Item `json:"items"`
	// Inserted is where the primary's log ended when all was done: who has replayed so far has it all.
	Inserted wal.LSN `json:"inserted,omitempty"`
}

// Item is what became of one thing.
type Item struct {
	Kind string `json:"kind"`
	// Name is that of the role or database; of an extension, database/extension.
	Name string `json:"name"`
	// Changed is true when something had to be done.
	Changed bool `json:"changed,omitempty"`
	// Error is empty when all is as desired, otherwise what is wrong and what to do.
	Error string `json:"error,omitempty"`
}
