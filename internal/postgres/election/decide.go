package election

import "time"

// Decide returns what to do next. It is total: each input has an answer.
func Decide(c Config, in Input) Decision {
	return Decision{Action: Wait{}, Until: in.Now + c.Renew, Reason: "nothing to do"}
}

// Report returns what this agent tells its peers and the operator about its instance.
func Report(c Config, in Input) State {
	return State{Name: c.Self.Name, UID: c.Self.UID}
}

// Deadline returns when the holder must have stopped PostgreSQL, at Fence, and must end what is left of it, at Kill.
// ok is false if it never must: the cluster has no other instance, or PostgreSQL can't be read-write.
// A watchdog beside the loop enforces both, whatever the loop does.
func Deadline(c Config, in Input) (fence, kill time.Duration, ok bool) {
	return 0, 0, false
}

// Reply answers a holder that asks for a promise.
type Reply struct {
	Granted bool `json:"granted"`
	// Reason says why it was not.
	Reason string `json:"reason,omitempty"`
	// Until is on the clock of the one who promises: it goes into Input.Promised before the answer is sent.
	Until time.Duration `json:"-"`
}

// Promise answers asker, which holds the Lease and can't reach the API server: may it go on for the time of a Lease?
func Promise(c Config, in Input, asker Holder) Reply {
	return Reply{Reason: "nothing is known"}
}

// Blocked is the setting of synchronous replication under which nothing is acknowledged: what a server starts with, and
// a standby runs with. nil where the cluster is asynchronous.
func (c Config) Blocked() *Quorum {
	if c.Synchronous == 0 {
		return nil
	}
	return &Quorum{Number: c.Synchronous}
}
