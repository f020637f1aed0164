package election

import "time"

// Data is the state of the data directory.
type Data string

// Values of [Data].
const (
	// Empty means that it has no files.
	Empty Data = ""
	// Incomplete means that an initdb or a clone did not finish.
	Incomplete Data = "incomplete"
	// Usable means that PostgreSQL can start.
	Usable Data = "usable"
	// NeedsReclone means that PostgreSQL cannot start or follow with the data, because a rewind failed.
	NeedsReclone Data = "needsReclone"
	// Unrecognized means that the data does not belong to this cluster or PostgreSQL version. Only a person removes it.
	Unrecognized Data = "unrecognized"
)

// Role is the role of a running server. On disk, standby.signal marks a standby.
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
	Up        Process = "up"        // accepts connections, or did until it became unresponsive
	Promoting Process = "promoting" // pg_promote was called, and recovery has not ended
	Stopping  Process = "stopping"
)

// Server is the agent's own PostgreSQL.
type Server struct {
	Data    Data
	Process Process
	// Role is the role on disk while PostgreSQL is down, and otherwise the role that it started with. It is Primary from the call
	// of pg_promote on.
	Role Role
	// ProcessSince is when Process or StopMode last changed; initially the start of the agent.
	ProcessSince time.Duration
	// StopMode is the hardest stop that was ordered; NoStop unless Process is Stopping.
	StopMode StopMode
	// DataTask is the task that runs on the data directory now: initdb, clone or rewind; "" for none.
	DataTask DataTask
	// CleanShutdown means that PostgreSQL shut down cleanly: Position is its shutdown checkpoint, and no WAL follows.
	CleanShutdown bool
	// SystemID and Position are those of pg_control while PostgreSQL is down. Position is the end of what was received or
	// written, never of what was replayed. Exact means that no WAL on disk lies beyond it.
	SystemID string
	Position Position
	Exact    bool
	// History is the history of the server's own timeline, oldest first.
	History []TimelineSwitch
	// HighestTimeline is the highest timeline with a history file in pg_wal, or that other volumes have used. PostgreSQL promotes to a
	// higher one.
	HighestTimeline uint32
	// Upstream is the instance that a standby should follow. Receiving means that its WAL receiver runs.
	Upstream  string
	Receiving bool
	// OldestWAL is where the WAL on disk begins; 0 while that is unknown. It never decreases.
	OldestWAL uint64
	// SampledAt is when Position was last queried. PrimaryReachedAt is when the primary last accepted a replication connection
	// from this standby.
	SampledAt, PrimaryReachedAt time.Duration
	// These times are 0 if the state does not apply, see [Track]. WALGoneSince: the primary has removed WAL that this standby
	// needs next. StalledSince: the standby receives nothing although the primary is ready. AwaitingRecloneSince: it waits for
	// its turn to be recloned.
	WALGoneSince, StalledSince, AwaitingRecloneSince time.Duration
	// Failures is how often a standby exited unexpectedly, or was given up while it started, since it last followed a primary.
	Failures int
	// ClonedSinceFollowing means that the data was copied since this instance last followed a primary.
	ClonedSinceFollowing bool
	// HeartbeatAt is when a write of the heartbeat was last answered: it succeeded, or failed for another reason than the disk.
	HeartbeatAt time.Duration
	// FullDisk means that the volume is full, or for a stopped server that it lacks the space to start. PreviousCrashAt is 0
	// then.
	FullDisk bool
	// CrashedAt and PreviousCrashAt are the last two times that the server exited unexpectedly or failed to start.
	CrashedAt, PreviousCrashAt time.Duration
	// UnresponsiveAt is when PostgreSQL was last stopped or exited while [Unresponsive] was true; 0 means never.
	UnresponsiveAt time.Duration
	// Checkpointing means that a checkpoint of the action [Checkpoint] runs. CheckpointedAt is when the last one finished; 0
	// means never.
	Checkpointing  bool
	CheckpointedAt time.Duration
	// RecoveryAdvancedAt is when the recovery of a starting or promoting server last made progress; 0 means never.
	RecoveryAdvancedAt time.Duration
	// Planned is Planned of the order to stop. EscalatedAt is when a planned stop was last made harder; 0 means never.
	Planned     bool
	EscalatedAt time.Duration
	// Sync is the loaded setting of synchronous replication; nil is none. A server starts and is promoted with [StandbySync].
	Sync *Quorum
	// SyncLSN is the end of WAL when Sync was loaded, or later.
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

// TimelineSwitch is the end of a timeline, where the next timeline of the history begins.
type TimelineSwitch struct {
	Timeline uint32 `json:"timeline"`
	LSN      uint64 `json:"lsn"`
}

// StandbyStatus is a row of the primary's pg_stat_replication whose application_name is an instance.
type StandbyStatus struct {
	// Streaming means that the state is "streaming". CaughtUp means that a commit would not wait long for this standby.
	Streaming, CaughtUp bool
	// FlushLSN is its flush_lsn.
	FlushLSN uint64
	// StreamingAt is when it last was streaming.
	StreamingAt time.Duration
}

// Answer is the last answer of a peer.
type Answer struct {
	// RequestedAt is when the request was sent.
	RequestedAt time.Duration
	State       State
}

// State is what an agent reports to others about its instance. [Report] creates it.
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
	// Upstream is the instance that it follows.
	Upstream string `json:"upstream,omitempty"`
	// OldestWAL is where the WAL begins that a primary can still send.
	OldestWAL uint64 `json:"oldestWAL,omitempty"`
	// WALGone: the primary has removed WAL that this standby needs next. AwaitingReclone: it waits for its turn to be recloned.
	WALGone         bool `json:"walGone,omitempty"`
	AwaitingReclone bool `json:"awaitingReclone,omitempty"`
	// Writable: it holds the lease and its PostgreSQL accepts writes.
	Writable bool `json:"writable,omitempty"`
	// Candidate: it would take an available lease, after FirstIn if it were the only candidate. A FirstIn below 0 means now.
	Candidate bool          `json:"candidate,omitempty"`
	FirstIn   time.Duration `json:"firstIn,omitempty"`
	// WALReceiverStoppedFor is the version of the available lease for which it stopped its WAL receiver. It receives nothing
	// until it has seen a newer version.
	WALReceiverStoppedFor string `json:"walReceiverStoppedFor,omitempty"`
	// RecentlyUnresponsive: it was unresponsive as the primary, and has not run for long since. Others with the same WAL rank
	// before it.
	RecentlyUnresponsive bool `json:"recentlyUnresponsive,omitempty"`
	// TargetOnProbation is the requested primary to which this primary does not switch over yet, because that instance was
	// unresponsive.
	TargetOnProbation string `json:"targetOnProbation,omitempty"`
	// SwitchoverTimedOut is the requested primary of a switchover in which this primary took too long to stop: see
	// [Server.AfterStopOrder].
	SwitchoverTimedOut string `json:"switchoverTimedOut,omitempty"`
	// API means that it reaches the API server.
	API bool `json:"api,omitempty"`
}

// Input is what an agent observes.
type Input struct {
	Now time.Duration
	// ShuttingDown means that the agent should exit (SIGTERM).
	ShuttingDown bool
	// Lease is what the agent knows of the Lease, Tenure what it knows of its own writes to it.
	Lease  Observation
	Tenure Tenure
	// RequestingPromises means that a round of [RequestPromises] is in progress.
	RequestingPromises bool
	// PromisedUntil is when a promise ends that forbids this agent to take the lease or to become read-write; see [Promise].
	PromisedUntil time.Duration
	Server        Server
	// Peers are the last answers of the other instances, Standbys the standbys of a primary, both by instance.
	Peers    map[string]Answer
	Standbys map[string]StandbyStatus
}
