// Package watchdog kills PostgreSQL at its deadline even if the agent cannot: the agent may be stopped (SIGSTOP, a
// debugger), deadlocked or starved. The watchdog is a separate process. The agent starts it and sends it a deadline with
// each renewal of the Lease. When the deadline passes, the watchdog kills the postmaster and all other processes that use
// the data.
//
// # Invariants
//
//  1. While PostgreSQL may be read-write and another instance could acquire the Lease, there is a live watchdog. Its
//     deadline is not later than the one of package election: the send time of the last successful renewal, plus fence
//     and kill. It sends SIGKILL shortly before, see [killLead].
//  2. The agent's own deadline (its fence) moves later only after a live watchdog has confirmed the same deadline. It
//     moves earlier at once. So a dead or hung watchdog is replaced before the next renewal counts. If it cannot be
//     replaced, the fence stops PostgreSQL at the last confirmed deadline.
//  3. PostgreSQL is started read-write, or promoted, only after a watchdog has confirmed the deadline.
//  4. Only the agent sets a deadline. If the agent exits while there is one, the watchdog kills at once.
//  5. There is no deadline if no other instance could become primary: a single-instance cluster is never killed.
//  6. A watchdog is dead before another one replaces it, so that an old deadline has no effect.
//
// Two cases remain. The agent may be stopped in the moment in which a dead watchdog is replaced. And if the whole node
// hangs, the watchdog hangs too. It kills as soon as it continues, without waiting for the agent.
//
// # The clock
//
// The clock is CLOCK_BOOTTIME, as in the rest of the agent: time in suspend counts, because other instances can acquire
// the Lease meanwhile. CLOCK_MONOTONIC and the timeouts of poll stop in suspend, so the watchdog uses a timer of
// CLOCK_BOOTTIME.
//
// # Size
//
// The process is the agent's own program. It becomes a watchdog in the init function of this package, before packages
// with later import paths are initialized. The package has few imports for that reason, and collects no garbage.
package watchdog
