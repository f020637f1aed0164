// Package election decides what the agent beside one PostgreSQL does next: [Decide] maps what the agent is told to do
// (a [Config]) and what it observes (an [Input]) to one [Action]. The safety of a cluster hangs on this package, so
// it has no I/O, no goroutine and no clock of its own, and it is model-checked (model_test.go).
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
// [Promise] how it answers a holder that can't reach the API server, and [Deadline] the instant that a watchdog
// beside the loop enforces.
//
// # Writes
//
// A write of the Lease is one update that carries the resourceVersion of [Lease.Version], so it succeeds only if
// nobody wrote in between. Every request to the API server is given up after [Config.Renew].
package election
