package election

import (
	"slices"
	"testing"
	"time"
)

// 3, 7. Who may take the Lease from a holder, and is asked for a promise.
func TestRenew_listsEligibleInstances(t *testing.T) {
	all := config().Instances
	quiet := func(in *Input, names ...string) {
		for _, name := range names {
			a := in.Peers[name]
			a.RequestedAt = now - 11*second
			in.Peers[name], in.Standbys[name] = a, StandbyStatus{StreamingAt: now - 11*second}
		}
	}
	for _, tc := range []struct {
		name   string
		change func(c *Config, in *Input)
		want   []string
	}{
		{"all that answer", nil, all},
		{"not one that is down for long", func(_ *Config, in *Input) { quiet(in, "pg-2") }, all[:2]},
		{"one that was heard of a moment ago", func(_ *Config, in *Input) {
			quiet(in, "pg-2")
			in.Peers["pg-2"] = Answer{RequestedAt: now - 10*second}
		}, all},
		{"one that streams, though its agent does not answer", func(_ *Config, in *Input) {
			quiet(in, "pg-2")
			in.Standbys["pg-2"] = StandbyStatus{Streaming: true, StreamingAt: now - second}
		}, all},
		{"one that returns is listed again", func(_ *Config, in *Input) { in.Lease.Lease.Instances = all[:2] }, all},
		{"a holder that is new has heard of no instance yet", func(_ *Config, in *Input) {
			quiet(in, "pg-1", "pg-2")
			in.Tenure.AcquiredAt = now - 9*second
		}, all},
		{"the last ones stay", func(_ *Config, in *Input) { quiet(in, "pg-1", "pg-2") }, all},
		{"the last one stays", func(_ *Config, in *Input) {
			quiet(in, "pg-1", "pg-2")
			in.Lease.Lease.Instances = all[:2]
		}, all[:2]},
		{"no instance stays that is no instance any more", func(c *Config, in *Input) {
			c.Instances = all[:2]
			quiet(in, "pg-1", "pg-2")
		}, all[:2]},
		{"a cluster that grows lists no instance before it was heard of", func(_ *Config, in *Input) {
			in.Peers, in.Standbys, in.Lease.Lease.Instances = nil, nil, all[:1]
		}, all[:1]},
	} {
		c, in := asPrimary()
		if tc.change != nil {
			tc.change(&c, &in)
		}
		next, urgent := newDecider(c, in).renewalRecord()
		if !slices.Equal(next.Instances, tc.want) || urgent {
			t.Errorf("%s: %v, urgent %v, want %v with the next renewal", tc.name, next.Instances, urgent, tc.want)
		}
	}
}

// 7. Three instances of which one is down for long: the API server is away for a minute, and the primary goes on.
func TestRenew_outageWithOneInstanceDown(t *testing.T) {
	c, in := asPrimary()
	delete(in.Standbys, "pg-2")
	delete(in.Peers, "pg-2")
	next, _ := newDecider(c, in).renewalRecord() // of the last renewal before the outage
	in.Lease.Lease.Instances, in.Lease.FailedAt = next.Instances, now
	in.Tenure.Confirmed = Write{Sent: now - time.Minute, Lease: next}
	in.Tenure.Promises, in.Tenure.PromisesRequestedAt, in.Tenure.TriedAt = map[string]time.Duration{"pg-1": now - second}, now, now
	if d := Decide(c, in); d.Action != (Wait{}) {
		t.Errorf("%T%+v: %s", d.Action, d.Action, d.Reason)
	}
}
