// Package watchdog ends a PostgreSQL whose time is over even if the agent does not: it is stopped (SIGSTOP, a debugger),
// deadlocked or starved. It is a process of its own, which the agent starts and which is told a deadline with each renewal
// of the Lease. When the deadline passes it kills the postmaster and all other processes that use the data.
//
// # Invariants
//
//  1. While PostgreSQL may be read-write and another instance could take the Lease, a watchdog lives which has a deadline
//     that is not later than the one of package election: the last renewal that succeeded, as it was sent, plus fence and
//     kill. It sends SIGKILL a moment before, see [Lead].
//  2. The deadline that the agent itself goes by (its fence) moves later only when a watchdog that lives has confirmed the
//     same one; it moves earlier at once. So a watchdog that died or hangs is noticed and replaced before the next renewal
//     counts; if it can't be replaced, the fence ends PostgreSQL at the deadline that was confirmed last.
//  3. PostgreSQL is started read-write, or promoted, only after a watchdog has confirmed the deadline.
//  4. Nobody but the agent sets a deadline. If the agent ends while there is one, the watchdog kills at once.
//  5. There is no deadline where nobody could take over: a cluster of one instance is never ended.
//  6. A watchdog is dead before another takes its place, so that an old deadline ends nothing.
//
// What is left: the agent is stopped within the moment in which a watchdog that died is being replaced; and a machine that
// stands still as a whole, where the watchdog does too. It kills as soon as it goes on, without waiting for the agent.
//
// # The clock
//
// CLOCK_BOOTTIME, like the rest of the agent: the Lease is taken over by others while this machine sleeps, so the time that
// it slept counts. CLOCK_MONOTONIC stands still meanwhile, and so do the timeouts of poll; hence a timer of CLOCK_BOOTTIME.
//
// # Size
//
// The process is the agent's own program, which becomes a watchdog in the init function of this package: before packages
// that come later in the order of paths have been set up. It imports little for that reason, and collects no garbage.
package watchdog
