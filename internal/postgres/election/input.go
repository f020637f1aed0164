package election

import "time"

// Data is what the data directory holds.
type Data string

// Values of [Data].
const (
	// Empty has nothing in it.
	Empty Data = ""
	// Incomplete was left by an initdb or a clone that did not end.
	Incomplete Data = "incomplete"
	// Usable can be started.
	Usable Data = "usable"
	// NeedsReclone can't be started or followed with, and a rewind has failed.
	NeedsReclone Data = "needsReclone"
	// Unrecognized is not of this PostgreSQL, or of another version of it: only a person removes it.
	Unrecognized Data = "unrecognized"
)

// Role is what a server is when it runs; on disk it is told by standby.signal.
type Role string

// Values of [Role].
const (
	Standby Role = "standby"
	Primary Role = "primary"
)

// Process is the state of the postmaster.
type Process string

// Values of [Process].
const (
	Down      Process = ""
	Starting  Process = "starting"
	Up        Process = "up"        // answers connections, or did until it hung
	Promoting Process = "promoting" // pg_promote was called; not yet out of recovery
	Stopping  Process = "stopping"
)

// Server is the agent's own PostgreSQL.
type Server struct {
	Data    Data
	Process Process
	// Role is that on disk while it is down, else that it was started as; Primary from the call of pg_promote on.
	Role Role
	// ProcessSince is when Process or Stop took its present value; the start of the agent, to begin with.
	ProcessSince time.Duration
	// StopMode is the hardest stop that was ordered; NoStop unless Stopping.
	StopMode StopMode
	// DataTask is a task on the data directory that runs now: initdb, clone, rewind; "" for none.
	DataTask DataTask
	// CleanShutdown says that it was shut down in order: Position is its shutdown checkpoint, and nothing comes after.
	CleanShutdown bool
	// SystemID and Position are as of pg_control while it is down. Position is the end of what was received, or
	// written; never what was replayed. Exact says that nothing that is on disk lies beyond it.
	SystemID string
	Position Position
	Exact    bool
	// History is that of the server's own timeline, oldest first.
	History []TimelineSwitch
	// HighestTimeline is the highest timeline that a history file in pg_wal is of: PostgreSQL promotes to a higher one.
	HighestTimeline uint32
	// Upstream is the instance that a standby is told to follow; Receiving says that its WAL receiver lives.
	Upstream  string
	Receiving bool
	// OldestWAL is where the log that is still there begins; 0 when that is not known. It never goes back.
	OldestWAL uint64
	// SampledAt is when its Position was asked for. Reached is when the primary last took a connection for replication from it.
	SampledAt, PrimaryReachedAt time.Duration
	// Since when, see [Track]; 0 for not. Severed: the primary has removed what this standby needs next. Stalled: it has received nothing
	// although the primary serves. Awaits: it waits for its turn to be recloned.
	WALGoneSince, StalledSince, AwaitingRecloneSince time.Duration
	// Failures is how often a standby has ended without being told to, or was given up while it started, since it last followed.
	Failures int
	// ClonedSinceFollowing says that the data were copied since this instance last followed.
	ClonedSinceFollowing bool
	// HeartbeatAt is when a write of the heartbeat was last answered: it succeeded, or failed for a reason that is not the disk.
	HeartbeatAt time.Duration
	// FullDisk says that the volume is full; of a server that is down, that it lacks the space to go on. PreviousCrashAt is 0 then.
	FullDisk bool
	// CrashedAt and PreviousCrashAt are the last two times that the server ended, or failed to start, without being told to end.
	CrashedAt, PreviousCrashAt time.Duration
	// UnresponsiveAt is when it was last ordered to stop while [Unresponsive] held; 0 for never.
	UnresponsiveAt time.Duration
	// Checkpointing says that a checkpoint runs that [Checkpoint] ordered, Checkpointed when the last one ended; 0 for none.
	Checkpointing  bool
	CheckpointedAt time.Duration
	// RecoveryAdvancedAt is when the recovery of a server that starts, or is promoted, was last seen to have advanced; 0 for never.
	RecoveryAdvancedAt time.Duration
	// Planned is as in the order to stop. Forced is when a planned stop was last made harder; 0 for never.
	Planned     bool
	EscalatedAt time.Duration
	// Sync is the setting of synchronous replication that is loaded; nil is none. It starts, and is promoted, with [Blocked].
	Sync *Quorum
	// SyncLSN is where the log ended when Sync was loaded, or later.
	SyncLSN uint64
}

// DataTask is a task on the data directory.
type DataTask string

// Values of [Work].
const (
	NoDataTask   DataTask = ""
	Initializing DataTask = "initdb"
	Cloning      DataTask = "clone"
	Rewinding    DataTask = "rewind"
)

// TimelineSwitch is the end of a timeline: the next one in the history begins there.
type TimelineSwitch struct {
	Timeline uint32 `json:"timeline"`
	LSN      uint64 `json:"lsn"`
}

// StandbyStatus is a row of the primary's pg_stat_replication whose application_name is an instance.
type StandbyStatus struct {
	// Streaming and CaughtUp: in state "streaming", and without a lag that a commit would wait long for.
	Streaming, CaughtUp bool
	// FlushLSN is its flush_lsn.
	FlushLSN uint64
	// StreamingAt is when it was streaming the last time.
	StreamingAt time.Duration
}

// Answer is what a peer said last.
type Answer struct {
	// RequestedAt is when the question was sent.
	RequestedAt time.Duration
	State       State
}

// State is what an agent tells others about its instance, made by [Report].
type State struct {
	Name     string   `json:"name"`
	UID      string   `json:"uid"`
	SystemID string   `json:"systemID,omitempty"`
	Data     Data     `json:"data,omitempty"`
	Process  Process  `json:"process,omitempty"`
	Role     Role     `json:"role,omitempty"`
	DataTask DataTask `json:"dataTask,omitempty"`
	Position Position `json:"position,omitzero"`
	Exact    bool     `json:"exact,omitempty"`
	// Upstream is whom it follows.
	Upstream string `json:"upstream,omitempty"`
	// OldestWAL is where the log begins that a primary can still send.
	OldestWAL uint64 `json:"oldestWAL,omitempty"`
	// WALGone: the primary has removed what this standby needs next. Awaits: it waits for its turn to be recloned.
	WALGone         bool `json:"walGone,omitempty"`
	AwaitingReclone bool `json:"awaitingReclone,omitempty"`
	// Writable: it holds the Lease and its PostgreSQL accepts writes.
	Writable bool `json:"writable,omitempty"`
	// Candidate: it would take the Lease when it is free; after FirstIn (below 0: by now) if it were the only one.
	Candidate bool          `json:"candidate,omitempty"`
	FirstIn   time.Duration `json:"firstIn,omitempty"`
	// WALReceiverStoppedFor is the version of the Lease that it saw free: it receives nothing until it has seen a newer one.
	WALReceiverStoppedFor string `json:"walReceiverStoppedFor,omitempty"`
	// RecentlyUnresponsive: it stood still as a primary, and has not run for long since. Others that have as much come first.
	RecentlyUnresponsive bool `json:"recentlyUnresponsive,omitempty"`
	// TargetOnProbation is the instance that shall lead, of a primary that does not give way to it yet, as it stood still.
	TargetOnProbation string `json:"targetOnProbation,omitempty"`
	// SwitchoverTimedOut is the instance that shall lead, of a primary whose stop for it took too long: see [Server.Ordered].
	SwitchoverTimedOut string `json:"switchoverTimedOut,omitempty"`
	// API says that it reaches the API server.
	API bool `json:"api,omitempty"`
}

// Input is what an agent observes.
type Input struct {
	Now time.Duration
	// ShuttingDown says that the agent shall end (SIGTERM).
	ShuttingDown bool
	// Lease is what it knows of the Lease, Holding what it knows of its own writes of it.
	Lease  Observation
	Tenure Tenure
	// RequestingPromises says that a round of questions of [RequestPromises] is under way.
	RequestingPromises bool
	// PromisedUntil is until when a promise forbids this agent to take the Lease or to become read-write; see [Promise].
	PromisedUntil time.Duration
	Server        Server
	// Peers are the last answers of the other instances, Followers the standbys of a primary, both by instance.
	Peers    map[string]Answer
	Standbys map[string]StandbyStatus
}
