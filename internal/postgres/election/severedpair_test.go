package election

import (
	"math/rand/v2"
	"testing"
	"time"
)

// half is one of two severed standbys of pg-1. Its log seems to end a little earlier while it is down: of what it received, the
// last record may not be whole.
type half struct {
	config  Config
	server  Server
	cloning time.Duration // until when; 0 while it is not made anew
	copies  int           // how often it was
	answers []Answer      // what it would have said at each time, newest last
}

const (
	runs, rests = 1000, 990 // where its log ends while it runs, and while it is down
	tact        = 500 * time.Millisecond
)

// input is what it knows at a time, when it heard the other one last at the time of heard.
func (h *half) input(at time.Duration, heard Answer) Input {
	_, in := severed()
	in.Now, in.Lease.Since, in.Lease.ReadAt = at, at-tact, at-tact
	in.Server = h.server
	primary := in.Peers["pg-1"].State
	in.Peers = map[string]Answer{"pg-1": {Sent: at, State: primary}}
	if heard.Sent > 0 {
		in.Peers[heard.State.Name] = heard
	}
	return in
}

// turn has its agent look, and do what it decides.
func (h *half) turn(at time.Duration, heard Answer) {
	s := &h.server
	switch {
	case h.cloning > 0 && at >= h.cloning: // whole, and it follows
		h.cloning, s.Data, s.Work, s.Process, s.Since, s.Position.LSN = 0, Usable, NoWork, Up, at, 3000
		s.Upstream, s.Exact, s.Severed = "pg-1", true, 0
	case s.Process == Up:
		s.Looked = at
	}
	s.Severed = Severed(h.config, h.input(at, heard))
	in := h.input(at, heard)
	switch a := Decide(h.config, in).Action.(type) {
	case Stop:
		h.end(at)
	case StartStandby:
		s.Process, s.Since, s.Upstream, s.Position.LSN = Up, at, a.Upstream, runs
	case Reclone:
		s.Data, s.Work, h.cloning = Partial, Cloning, at+20*second
		h.copies++
	}
	state := Report(h.config, h.input(at, heard))
	h.answers = append(h.answers, Answer{Sent: at, State: state})
}

func (h *half) end(at time.Duration) {
	s := &h.server
	s.Process, s.Since, s.Upstream, s.Receiving, s.Clean, s.Position.LSN = Down, at, "", false, true, rests
}

// newPair is two of them.
func newPair() (pair [2]*half) {
	for i, name := range []string{"pg-0", "pg-2"} {
		c, in := severed()
		c.Self = Holder{Name: name, UID: name}
		pair[i] = &half{config: c, server: in.Server}
		pair[i].server.Severed, pair[i].server.Since = 0, now
	}
	return pair
}

// hear returns what is heard next of the other one: nothing new, or something that may be up to 6 s old.
func hear(rng *rand.Rand, before Answer, said []Answer) Answer {
	late := rng.IntN(14)
	if len(said) <= late || late >= 3 && rng.IntN(4) > 0 || said[len(said)-1-late].Sent < before.Sent {
		return before
	}
	return said[len(said)-1-late]
}

// restarted says that it is, by somebody else.
func (h *half) restarted(rng *rand.Rand, at time.Duration) bool {
	return at < now+2*time.Minute && h.copies == 0 && h.server.Process == Up && rng.IntN(60) == 0
}

// 10. Of two severed standbys never both are made anew at once, however old what they know of each other is, and whenever one of
// them is restarted; and both are in the end.
func TestSeveredPair(t *testing.T) {
	for seed := range uint64(120) {
		rng := rand.New(rand.NewPCG(seed, 7))
		pair := newPair()
		var heard [2]Answer
		for at := now; at < now+4*time.Minute; at += tact {
			for i, h := range pair {
				heard[i] = hear(rng, heard[i], pair[1-i].answers)
				if h.restarted(rng, at) {
					h.end(at)
				}
				h.turn(at, heard[i])
			}
			if pair[0].cloning > 0 && pair[1].cloning > 0 {
				t.Fatalf("seed %d: both are made anew at %s", seed, at-now)
			}
		}
		if pair[0].copies != 1 || pair[1].copies != 1 {
			t.Fatalf("seed %d: made anew %d and %d times", seed, pair[0].copies, pair[1].copies)
		}
	}
}
