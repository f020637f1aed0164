package election

// Code names a decision for logs, dashboards and runbooks. It is part of the API: it stays the same when the text changes.
type Code string

// cause is the code and the text of a decision: why an action is taken, or what an instance waits for.
type cause struct {
	code Code
	text string
}

// Codes of instances that hold the lease.
const (
	// CodePrimaryReady means that the instance is the primary and accepts writes. Nothing has to be done.
	CodePrimaryReady Code = "PrimaryReady"
	// CodeSwitchoverDeferred means that the primary stays the primary although another instance was requested. The text says what
	// is missing. Fix that, or request the switchover again.
	CodeSwitchoverDeferred Code = "SwitchoverDeferred"
	// CodeRenewingLease means that the primary renews its lease. It happens every retry period and is logged at level debug.
	CodeRenewingLease Code = "RenewingLease"
	// CodePublishingRecord means that the primary writes a change into the record of the lease: its timeline, or the synchronous standbys.
	// Nothing has to be done.
	CodePublishingRecord Code = "PublishingRecord"
	// CodeRequestingPromises means that the primary cannot renew its lease and asks its peers to promise not to take the lease. The
	// primary stays up while all peers promise. Check the API server and the network to it.
	CodeRequestingPromises Code = "RequestingPromises"
	// CodeSyncStandbysChanged means that the primary loads another list of synchronous standbys, because a standby joined or left.
	// Nothing has to be done.
	CodeSyncStandbysChanged Code = "SyncStandbysChanged"
	// CodeCheckpointBeforeStop means that the primary takes a checkpoint before a planned stop, to make the stop short. Clients are served
	// meanwhile. Nothing has to be done.
	CodeCheckpointBeforeStop Code = "CheckpointBeforeStop"
	// CodeSwitchover means that the primary stops, or releases the lease, for the requested instance. Nothing has to be done.
	CodeSwitchover Code = "Switchover"
	// CodeWaitingForSwitchoverTarget means that the stopped primary waits until the requested instance confirms that it has all WAL. The
	// wait lasts for less than a second.
	CodeWaitingForSwitchoverTarget Code = "WaitingForSwitchoverTarget"
	// CodeLeaseDeleted means that the lease does not exist. The primary creates it again within seconds. If that fails, check the
	// RoleBinding of the cluster's ServiceAccount.
	CodeLeaseDeleted Code = "LeaseDeleted"
	// CodeLeaseRecreatedLate means that this instance created a deleted lease, but perhaps after another instance had taken over. It
	// releases the lease. Nothing has to be done.
	CodeLeaseRecreatedLate Code = "LeaseRecreatedLate"
	// CodeReacquiringLease means that a restarted agent takes back the lease that still names its pod. Nothing has to be done.
	CodeReacquiringLease Code = "ReacquiringLease"
	// CodeWaitingToReacquireLease means that the agent cannot reach the API server to take back its own lease. Check the API server.
	CodeWaitingToReacquireLease Code = "WaitingToReacquireLease"
	// CodeWaitingForLeaseWrite means that the agent waits for the answer to a write of the lease. If it lasts, check the API server.
	CodeWaitingForLeaseWrite Code = "WaitingForLeaseWrite"
	// CodeWaitingForLeaseRecord means that the agent waits until the lease records this instance as the primary. It takes one write of the lease.
	CodeWaitingForLeaseRecord Code = "WaitingForLeaseRecord"
	// CodeWaitingForRenewal means that the agent waits for a fresh renewal of the lease before it promotes. If it lasts, check the API server.
	CodeWaitingForRenewal Code = "WaitingForRenewal"
	// CodeStartingPrimary means that PostgreSQL starts as the primary. Crash recovery can take minutes.
	CodeStartingPrimary Code = "StartingPrimary"
	// CodeStartingForPromotion means that PostgreSQL starts in recovery and is promoted afterwards. Nothing has to be done.
	CodeStartingForPromotion Code = "StartingForPromotion"
	// CodePromoting means that the instance won the election and is promoted to primary. Nothing has to be done.
	CodePromoting Code = "Promoting"
	// CodeInitializingCluster means that initdb, or the import from another server, creates the data of a new cluster.
	CodeInitializingCluster Code = "InitializingCluster"
)

// Codes of the end of a primary.
const (
	// CodeLeaseNotRenewed means that the primary could not renew its lease in time and stops PostgreSQL at once (fencing). Check the API
	// server, the network of the node, and whether the node was frozen.
	CodeLeaseNotRenewed Code = "LeaseNotRenewed"
	// CodeLeaseLost means that the lease names another instance, or no instance. PostgreSQL stops at once (fencing). The instance rejoins as a standby.
	CodeLeaseLost Code = "LeaseLost"
	// CodeFastStopTimedOut means that a fast shutdown took too long and becomes an immediate one. The next start runs crash recovery.
	CodeFastStopTimedOut Code = "FastStopTimedOut"
	// CodeImmediateStopTimedOut means that an immediate shutdown took too long and the processes are killed. Check the disk of the node.
	CodeImmediateStopTimedOut Code = "ImmediateStopTimedOut"
	// CodeWaitingForExit means that the agent waits for PostgreSQL to exit after an order to stop. If it lasts, check the disk of the node.
	CodeWaitingForExit Code = "WaitingForExit"
	// CodeUnresponsive means that PostgreSQL did not respond, and that the instance releases the lease. Check the disk of the node.
	CodeUnresponsive Code = "Unresponsive"
	// CodeCrashedAgain means that the primary crashed twice within a short time, and that the instance releases the lease. Read the
	// PostgreSQL log of the pod.
	CodeCrashedAgain Code = "CrashedAgain"
	// CodePromotionFailed means that PostgreSQL exited repeatedly before it could be promoted, and that the instance releases the lease.
	// Read the PostgreSQL log of the pod.
	CodePromotionFailed Code = "PromotionFailed"
	// CodeNoUsableData means that the holder of the lease has no data to start, and releases the lease. Check its volume.
	CodeNoUsableData Code = "NoUsableData"
	// CodeVolumeFull means that PostgreSQL has no space to start. Raise spec.storage, or free space on the volume.
	CodeVolumeFull Code = "VolumeFull"
	// CodeCrashBackOff means that PostgreSQL crashed, and that the agent waits before it starts it again. Read the PostgreSQL log of the pod.
	CodeCrashBackOff Code = "CrashBackOff"
	// CodeAgentStopping means that the pod is being deleted or restarted. PostgreSQL stops and the lease is released.
	CodeAgentStopping Code = "AgentStopping"
	// CodeFenced means that the annotation fettle.dev/fenced keeps PostgreSQL down. Remove the annotation to start it.
	CodeFenced Code = "Fenced"
	// CodeHibernated means that spec.hibernated keeps PostgreSQL down in all instances. Set it to false to start them.
	CodeHibernated Code = "Hibernated"
	// CodeWaitingToReleaseLease means that PostgreSQL is down, and that the API server is not reachable to release the lease. A peer takes
	// over when the lease expires.
	CodeWaitingToReleaseLease Code = "WaitingToReleaseLease"
)

// Codes of an election.
const (
	// CodeAcquiringLease means that this instance takes the lease, because the lease is free and no better candidate exists. A failover goes on.
	CodeAcquiringLease Code = "AcquiringLease"
	// CodeStoppingWALReceiver means that the standby stops its WAL receiver, so that the positions of all candidates are final. A failover begins.
	CodeStoppingWALReceiver Code = "StoppingWALReceiver"
	// CodeWaitingForPromise means that this instance promised the primary not to take the lease. The promise ends after one lease duration.
	CodeWaitingForPromise Code = "WaitingForPromise"
	// CodeWaitingForPeers means that this instance waits for its peers to answer before it decides. If it lasts, check the network between the pods.
	CodeWaitingForPeers Code = "WaitingForPeers"
	// CodeDeferringToCandidate means that another instance is the better candidate. Nothing has to be done.
	CodeDeferringToCandidate Code = "DeferringToCandidate"
	// CodeWaitingForBetterCandidate means that this instance lacks WAL of the last primary, and waits seconds for an instance that has it.
	CodeWaitingForBetterCandidate Code = "WaitingForBetterCandidate"
	// CodeWaitingForLastPrimary means that the last primary shut down cleanly with WAL that this instance lacks. Bring the last primary
	// back, or accept the loss with the annotation fettle.dev/accept-data-loss.
	CodeWaitingForLastPrimary Code = "WaitingForLastPrimary"
	// CodeNotListedInLease means that this instance was down for too long before the primary was lost, and must not take over. Bring back
	// one of the listed instances. If they are lost for good, delete the Lease.
	CodeNotListedInLease Code = "NotListedInLease"
	// CodeSyncStandbysUnreadable means that too few synchronous standbys are reachable to be sure that no confirmed commit is missing.
	// Bring the named standbys back.
	CodeSyncStandbysUnreadable Code = "SyncStandbysUnreadable"
	// CodeDataLossUnknown means that it is not known how much WAL this instance lacks. Bring the other instances back, or accept the loss with
	// the annotation fettle.dev/accept-data-loss.
	CodeDataLossUnknown Code = "DataLossUnknown"
	// CodeLagAboveMaximum means that this instance lacks more WAL than spec.failover.maximumLag allows. Bring the last primary back, or
	// accept the loss with the annotation fettle.dev/accept-data-loss.
	CodeLagAboveMaximum Code = "LagAboveMaximum"
	// CodeWaitingForInitialization means that a new cluster has no data yet, and that the first instance creates it.
	CodeWaitingForInitialization Code = "WaitingForInitialization"
	// CodeWaitingForEmptyPeers means that the first instance has no data, and waits until all peers confirm that they have none either. If
	// a peer has data, check why the first volume is empty.
	CodeWaitingForEmptyPeers Code = "WaitingForEmptyPeers"
)

// Codes of standbys.
const (
	// CodeFollowing means that the standby streams from the primary. Nothing has to be done.
	CodeFollowing Code = "Following"
	// CodeFollowingNewPrimary means that the standby connects to a new primary. Nothing has to be done.
	CodeFollowingNewPrimary Code = "FollowingNewPrimary"
	// CodeStartingStandby means that PostgreSQL starts as a standby. Nothing has to be done.
	CodeStartingStandby Code = "StartingStandby"
	// CodeStartingAsCandidate means that a former primary starts as a standby that can be elected. Nothing has to be done.
	CodeStartingAsCandidate Code = "StartingAsCandidate"
	// CodeRestartingToFollow means that a starting standby restarts with the current primary as its upstream, because WAL that it needs to
	// become consistent may only be there.
	CodeRestartingToFollow Code = "RestartingToFollow"
	// CodeWaitingForPrimary means that there is no primary to follow. If it lasts, see the codes of the other instances.
	CodeWaitingForPrimary Code = "WaitingForPrimary"
	// CodeWaitingForReadyPrimary means that a rewind or a reclone waits until the primary is ready.
	CodeWaitingForReadyPrimary Code = "WaitingForReadyPrimary"
	// CodeWaitingForPrimaryToClone means that an instance without data waits for a primary to clone.
	CodeWaitingForPrimaryToClone Code = "WaitingForPrimaryToClone"
	// CodeCloning means that an instance without data copies another instance with pg_basebackup. The time depends on the size of the data.
	CodeCloning Code = "Cloning"
	// CodeTimelineDiverged means that the instance has WAL that the primary does not have, and is rewound with pg_rewind.
	CodeTimelineDiverged Code = "TimelineDiverged"
	// CodeRewindPaused means that the instance needs a rewind, and spec.paused forbids it. Set spec.paused to false.
	CodeRewindPaused Code = "RewindPaused"
	// CodeReadingWAL means that a crashed former primary reads its WAL to the end, to know how much it has that the primary lacks.
	CodeReadingWAL Code = "ReadingWAL"
	// CodeDivergenceUnknown means that it is not known how much the instance has that the primary lacks, so its data is kept. Decide which data
	// to keep, then accept the loss with the annotation fettle.dev/accept-data-loss.
	CodeDivergenceUnknown Code = "DivergenceUnknown"
	// CodeDivergenceAboveMaximum means that the instance has more WAL that the primary lacks than spec.failover.maximumLag allows to discard.
	// Decide which data to keep, then accept the loss with the annotation fettle.dev/accept-data-loss.
	CodeDivergenceAboveMaximum Code = "DivergenceAboveMaximum"
	// CodeDataLossAccepted means that you accepted the loss of diverged data. The instance is recloned, and its former data stays on its volume.
	CodeDataLossAccepted Code = "DataLossAccepted"
	// CodeSyncModeChanged means that synchronous replication was turned on or off, and that the standby loads the setting. Nothing has to be done.
	CodeSyncModeChanged Code = "SyncModeChanged"
	// CodeForeignData means that the data belongs to another cluster. Remove the data, or the volume.
	CodeForeignData Code = "ForeignData"
	// CodeUnrecognizedData means that the volume holds files that are no data of this cluster and PostgreSQL version. Check the volume.
	CodeUnrecognizedData Code = "UnrecognizedData"
)

// Codes of standbys that cannot follow the primary and need a new base backup.
const (
	// CodeWALGone means that the primary removed WAL that the standby needs next. The standby is recloned when its turn comes.
	CodeWALGone Code = "WALGone"
	// CodeRewindFailed means that pg_rewind failed and the data cannot be used. The instance is recloned when its turn comes.
	CodeRewindFailed Code = "RewindFailed"
	// CodeStandbyCrashLooping means that PostgreSQL exits repeatedly before it can follow. The instance is recloned when its turn comes.
	// Read the PostgreSQL log of the pod.
	CodeStandbyCrashLooping Code = "StandbyCrashLooping"
	// CodeStandbyNotReady means that PostgreSQL does not become ready, and that you requested a reclone. The instance is recloned.
	CodeStandbyNotReady Code = "StandbyNotReady"
	// CodeStandbyStalled means that the standby receives nothing although the primary accepts its connections. The instance is recloned
	// when its turn comes.
	CodeStandbyStalled Code = "StandbyStalled"
	// CodeWaitingForRecloneTurn means that the standby waits until it may be recloned: one instance at a time, and only while another copy exists.
	CodeWaitingForRecloneTurn Code = "WaitingForRecloneTurn"
	// CodeReclonePaused means that the standby needs a reclone, and spec.paused forbids it. Set spec.paused to false.
	CodeReclonePaused Code = "ReclonePaused"
	// CodeRecloneDidNotHelp means that a new copy of the data cannot follow the primary either. Read the PostgreSQL log of the pod.
	CodeRecloneDidNotHelp Code = "RecloneDidNotHelp"
	// CodeRecloneNeedsConsent means that the standby needs a reclone, and spec.replicaRecovery is Manual. Save what you need of its data,
	// then set the annotation fettle.dev/reclone.
	CodeRecloneNeedsConsent Code = "RecloneNeedsConsent"
	// CodeOnlyOtherCopy means that the standby needs a reclone, and that only the primary has another copy of the data. Save what you
	// need of its data, then set the annotation fettle.dev/reclone.
	CodeOnlyOtherCopy Code = "OnlyOtherCopy"
)

// Codes of an agent that waits for its own work.
const (
	// CodeIdle means that there is nothing to do.
	CodeIdle Code = "Idle"
	// CodeWaitingForPostgreSQL means that PostgreSQL is starting, stopping or being promoted.
	CodeWaitingForPostgreSQL Code = "WaitingForPostgreSQL"
	// CodeWaitingForDataTask means that a task on the data directory runs: initdb, clone or rewind.
	CodeWaitingForDataTask Code = "WaitingForDataTask"
	// CodeWaitingForPreviousRun means that processes of a previous run of the agent have to exit first. If it lasts, check the disk of the node.
	CodeWaitingForPreviousRun Code = "WaitingForPreviousRun"
	// CodeInspectingDataDir means that the agent reads the data directory before its first decision. Reading much WAL can take minutes.
	CodeInspectingDataDir Code = "InspectingDataDir"
	// CodeWaitingForObject means that the agent has not read its PostgreSQL object yet. Check the API server.
	CodeWaitingForObject Code = "WaitingForObject"
)
