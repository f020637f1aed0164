// Package election decides what the agent of one PostgreSQL instance does next: [Decide] maps its configuration (a [Config]) and its
// observations (an [Input]) to one [Action]. The safety of a cluster depends on this package. So it has no I/O, no goroutine and no clock,
// and it is model-checked (model_test.go).
//
// # Invariants
//
// Comments, tests and mutants refer to them by number.
//
//  1. PostgreSQL is read-write only while its agent holds the lease. initdb runs once per cluster.
//  2. The holder stops PostgreSQL [Config.FenceDeadline] after it sent its last successful renewal, and kills the remaining processes
//     [Config.KillGrace] later.
//  3. An instance takes the lease only if the lease was released, or if the instance has seen the same record for [Config.LeaseDuration] on
//     its own clock. It takes a lease that was not released only if the record lists it in [Lease.Instances].
//  4. The lease is renewed only while PostgreSQL responds.
//  5. The lease is released after PostgreSQL has stopped, not before.
//  6. The election of a primary happens when the lease is available, by received WAL.
//  7. An API server that is down, or read-only, does not stop the database: see Promises.
//  8. All waits and all remembered state are bounded. No WAL receiver runs while positions are compared.
//  9. With synchronous replication a new primary has every confirmed commit: R + W > N.
//  10. Data with a diverged timeline is rewound or recloned, but never if it is the only other copy.
//  11. Routing follows a pod label. Safety does not depend on the label.
//  12. A full disk causes no failover.
//  13. With asynchronous replication nothing loses more than [Config.MaximumLag] of the WAL that is known to be written, unless a person
//     accepts the loss: no election, no rewind and no reclone.
//
// # Promises (7)
//
// A holder that cannot renew asks every instance that may take the lease for a promise ([Promise]): for one lease duration the instance
// neither takes the lease nor becomes read-write. The deadline (2) then counts from the oldest of the last granted requests.
//
//   - Which instances may take the lease? Only those in Lease.Instances of the record in the API server: a candidate replaces the very
//     record that it read, by its resourceVersion, and that record has to list it. The holder asks all instances that are listed in any of
//     its writes which may be that record: the last successful write, and all later ones without an answer.
//   - Why is a promise enough? The holder asked at t and is stopped by t + FenceDeadline + KillGrace. The peer received the request later than
//     t and takes nothing before t + LeaseDuration. [Config.Validate] guarantees that this is later, even on clocks that differ by 5 %. A
//     peer that may have taken the lease before the request rejects it: it has sent a write that succeeded or has no answer. A restarted
//     agent remembers no promise. It has to see the record for a lease duration from its first read on, which is after the promise.
//   - It does not matter whether the peer reads the API server. While only writes fail, the peer sees a record that gets old, and follows its
//     holder until the promise ends, see leaseAvailable.
//   - The record describes the holder less and less during the outage. So the holder starts nothing that needs a write: no switchover, and no
//     other setting of synchronous replication.
//
// # Faults
//
// The model runs random schedules of these faults, and all sequences of a few of them, and checks the invariants after each step. When the
// faults end, one primary has to hold the lease and all other instances have to stream from it.
//
//   - API server: unreachable for one instance or for all, read-only, answers lost.
//   - Network: an instance isolated from everything, a link between two instances cut.
//   - Machine: the agent hangs, the machine freezes, the container is killed, the node is lost, the volume is lost, the pod is deleted.
//   - PostgreSQL: crashes, hangs, rejects writes, a full disk, slow replication, WAL removed, damaged data, a standby that cannot stream.
//   - Lease: deleted, or deleted and re-created by the operator.
//   - People: switchover, pause, hibernation, scaling, synchronous replication turned on or off.
//
// # Time
//
// Every instant is a reading of the agent's own monotonic clock, as a [time.Duration] above 0; 0 means never. Instants of two machines are
// never compared. Only the rates of their clocks are trusted, to within a few percent.
//
// # The loop around it
//
// The agent calls Decide after each observation, after each finished action, and at [Decision.Until] at the latest. It carries out the action
// and reports the outcome in the next Input. Long actions (InitDB, Clone, Rewind, starting, stopping, Promote, writes of the Lease and
// requests to peers) run beside the loop. [Input] says that they are in progress, and Decide does not order them again. An order to stop
// overrides everything else.
//
// State that lasts from tick to tick is in [Observation] and [Tenure], with pure methods that the loop calls, so the model checks that
// bookkeeping too. [Report] is what the agent reports to its peers, [Promise] how it answers a holder that cannot renew the lease, and
// [Deadline] the instant that a watchdog beside the loop enforces.
//
// # Writes
//
// A write of the Lease is one update with the resourceVersion of [Lease.Version]. It succeeds only if no other client wrote in between. Every
// request to the API server times out after [Config.RenewInterval].
package election
