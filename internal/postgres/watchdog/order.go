package watchdog

import (
	"encoding/binary"
	"time"
)

// order is a message from the agent to the watchdog, which confirms it by sending it back.
type order struct {
	// number increases with each order.
	number uint64
	// deadline is a CLOCK_BOOTTIME instant. 0 means none.
	deadline time.Duration
}

// orderSize is the length of a message in bytes: two little-endian integers.
const orderSize = 16

func (o order) message() [orderSize]byte {
	var out [orderSize]byte
	binary.LittleEndian.PutUint64(out[:8], o.number)
	binary.LittleEndian.PutUint64(out[8:], uint64(o.deadline)) //nolint:gosec // it is read back in the same way
	return out
}

// parse parses a message. ok is false if it is invalid.
func parse(message []byte) (o order, ok bool) {
	if len(message) != orderSize {
		return order{}, false
	}
	at := time.Duration(binary.LittleEndian.Uint64(message[8:])) //nolint:gosec // it was written in the same way
	return order{number: binary.LittleEndian.Uint64(message[:8]), deadline: at}, at >= 0
}

// action is what a watchdog does next.
type action int

const (
	// actionWait waits for the deadline or another order.
	actionWait action = iota
	// actionKill kills PostgreSQL and exits.
	actionKill
	// actionExit exits because there is nothing to watch.
	actionExit
)

// childState is the state of a watchdog process.
type childState struct {
	order order
	// agentExited is true once the agent has exited.
	agentExited bool
}

// apply applies a message. An empty or invalid message means that the agent has exited. Only newer orders count. The
// watchdog applies all pending messages before it decides: an unread order comes from an agent that has renewed the Lease.
func (w childState) apply(message []byte) childState {
	o, ok := parse(message)
	switch {
	case !ok:
		w.agentExited = true
	case o.number > w.order.number:
		w.order = o
	}
	return w
}

// next returns what to do at a CLOCK_BOOTTIME instant.
func (w childState) next(now time.Duration) action {
	limited := w.order.deadline > 0
	switch {
	case limited && (w.agentExited || now >= w.order.deadline):
		return actionKill
	case w.agentExited:
		return actionExit
	}
	return actionWait
}
