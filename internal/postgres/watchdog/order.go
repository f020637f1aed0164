package watchdog

import (
	"encoding/binary"
	"time"
)

// order is what the agent tells the watchdog, which confirms it by sending it back.
type order struct {
	// number grows with each order of the agent.
	number uint64
	// deadline is the deadline by CLOCK_BOOTTIME; 0 for none.
	deadline time.Duration
}

// orderSize is the length of a message, in bytes: both numbers, in little endian.
const orderSize = 16

func (o order) message() [orderSize]byte {
	var out [orderSize]byte
	binary.LittleEndian.PutUint64(out[:8], o.number)
	binary.LittleEndian.PutUint64(out[8:], uint64(o.deadline)) //nolint:gosec // it is read back in the same way
	return out
}

// parse reads a message; ok is false if it is none.
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
	// actionWait for the deadline, or for another order.
	actionWait action = iota
	// actionKill PostgreSQL, and ends.
	actionKill
	// actionExit, as there is nothing to watch.
	actionExit
)

// childState is what a watchdog knows.
type childState struct {
	order order
	// agentExited says that the agent has ended.
	agentExited bool
}

// apply returns w after a message; nothing, or what is no order, comes from an agent that has ended. Only what is newer than
// what is known counts. The watchdog takes all that has arrived before it judges: an order which it had no time to read was
// sent by an agent that had renewed.
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

// next says what to do at an instant of CLOCK_BOOTTIME.
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
