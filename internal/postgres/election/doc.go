// Package election decides what the agent beside one PostgreSQL does next: [Decide] maps what the agent is told to do
// (a [Config]) and what it observes (an [Input]) to one [Action]. The safety of a cluster hangs on this package, so
// it has no I/O, no goroutine and no clock of its own, and it is model-checked (model_test.go).
//
// # Invariants
//
// Comments, tests and mutants name them by number.
//
//  1. PostgreSQL is read-write only while its agent holds the Lease. initdb runs once.
//  2. The holder stops PostgreSQL at [Config.Fence] after it sent its last renewal that succeeded, and kills what is left after [Config.Kill].
//  3. An instance takes the Lease only when it was released, or when it has seen the same record for [Config.Lease] on its own clock.
//     It takes the Lease of a holder that did not release it only if the record lists it in [Lease.Instances].
//  4. The Lease is renewed only while PostgreSQL answers.
//  5. The Lease is released when PostgreSQL is down, not before.
//  6. Who becomes primary is decided when the Lease is free, by what was received.
//  7. An API server that does not answer, or takes no writes, does not stop the database: see below.
//  8. All waits are bounded, and so is what is remembered. No WAL receiver lives when positions are compared.
//  9. In synchronous mode a new primary has every row that was acknowledged: R + W > N.
//  10. Data that have left the primary's history are rewound or recloned, and never the only other copy.
//  11. Routing follows a label. Safety does not depend on it.
//  12. A full disk causes no failover.
//  13. In asynchronous mode nothing loses more than [Config.MaximumLag] of what is known to be written, unless a person accepts that: no
//     election, no rewind and no new copy.
//
// # Promises (7)
//
// A holder that can't renew asks every instance that may take the Lease for a promise ([Promise]): for the length of a Lease it neither
// takes the Lease nor becomes read-write. The deadline (2) then counts from the oldest of the latest questions that were granted.
//
//   - Who may take the Lease? Only who is in Lease.Instances of the record as it is in the API server: a taker replaces the very record that it
//     read, by its resourceVersion, and that record has to list it. The holder asks all that are listed in any of its writes which may be
//     that record: the last one that succeeded, and all without an answer since.
//   - Why is a promise enough? The holder asked at t and is dead by t + Fence + Kill. The peer got the question later than t and takes nothing
//     before t + Lease, which [Config.Validate] holds to be later on clocks that differ by 5 %. A peer that may have taken the Lease before the question
//     refuses: it has sent a write that succeeded or has no answer. One whose process is new remembers no promise, and has to see the record
//     for the length of a Lease from its first read on, which is after the promise.
//   - Whether the peer reads the API server is of no account for that. While only writes fail it sees a record that grows old, and follows
//     its holder as long as its promise lasts, see view.free.
//   - The record says less and less of what the holder does meanwhile. So the holder starts nothing that needs a write: no switchover, and no
//     other setting of synchronous replication.
//
// # Time
//
// Every instant is what the agent's own monotonic clock showed, as a [time.Duration] above 0; 0 means never. Instants
// of two machines are never compared: only the rates of their clocks are trusted, to within a few percent.
//
// # The loop around it
//
// The agent calls Decide after each thing it observes, after each action that ended, and at [Decision.Until] at the
// latest. It does the action and reports what came of it in the next Input. Actions that take long (InitDB, Clone,
// Rewind, starting, stopping, Promote, writes of the Lease and questions to peers) run beside the loop; [Input] says
// that they are under way, and Decide does not order them again. An order to stop overtakes everything else.
//
// What has to be remembered from tick to tick is kept in [Observation] and [Holding], with pure methods that the loop
// calls; so the model checks that bookkeeping as well. [Report] is what the agent tells its peers about itself,
// [Promise] how it answers a holder that can't renew the Lease, and [Deadline] the instant that a watchdog
// beside the loop enforces.
//
// # Writes
//
// A write of the Lease is one update that carries the resourceVersion of [Lease.Version], so it succeeds only if
// nobody wrote in between. Every request to the API server is given up after [Config.Renew].
package election
