package watchdog

import (
	"testing"
	"time"
)

func TestOrder_message(t *testing.T) {
	for _, want := range []order{{}, {number: 1}, {number: 1 << 40, deadline: 3 * time.Hour}} {
		message := want.message()
		if got, ok := parse(message[:]); !ok || got != want {
			t.Errorf("%+v was read as %+v, %v", want, got, ok)
		}
	}
	past := order{number: 1, deadline: -1}.message()
	for name, message := range map[string][]byte{"nothing": nil, "too short": make([]byte, orderSize-1), "too long": make([]byte, orderSize+1), "before the start of the machine": past[:]} {
		if got, ok := parse(message); ok {
			t.Errorf("%s: was read as %+v", name, got)
		}
	}
}

// TestChildState_next: the newest order counts. Its deadline kills PostgreSQL, and so does the exit of the agent while
// there is a deadline.
func TestChildState_next(t *testing.T) {
	send := func(number uint64, at time.Duration) []byte {
		message := order{number: number, deadline: at}.message()
		return message[:]
	}
	for _, c := range []struct {
		name     string
		messages [][]byte
		now      time.Duration
		want     action
	}{
		{"no order yet", nil, 100, actionWait},
		{"in time", [][]byte{send(1, 100)}, 99, actionWait},
		{"at the deadline", [][]byte{send(1, 100)}, 100, actionKill},
		{"after a pause", [][]byte{send(1, 100)}, 100_000, actionKill},
		{"renewed", [][]byte{send(1, 100), send(2, 200)}, 150, actionWait},
		{"renewed, and over too", [][]byte{send(1, 100), send(2, 200)}, 200, actionKill},
		{"shortened", [][]byte{send(1, 200), send(2, 100)}, 150, actionKill},
		{"an old order does not count", [][]byte{send(2, 100), send(1, 200)}, 150, actionKill},
		{"no limit any more", [][]byte{send(1, 100), send(2, 0)}, 150, actionWait},
		{"a limit again", [][]byte{send(1, 0), send(2, 100)}, 150, actionKill},
		{"the agent ended in time", [][]byte{send(1, 100), nil}, 50, actionKill},
		{"the agent ended without a deadline", [][]byte{send(1, 100), send(2, 0), nil}, 50, actionExit},
		{"the agent ended before its first order", [][]byte{nil}, 50, actionExit},
		{"what is no order is not from the agent", [][]byte{send(1, 100), []byte("?")}, 50, actionKill},
	} {
		var w childState
		for _, m := range c.messages {
			w = w.apply(m)
		}
		if got := w.next(c.now); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
