package election

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// 4. The Lease is renewed only while PostgreSQL answers.
func TestRenew_onlyWhileAlive(t *testing.T) {
	due := func(in *Input) { in.Tenure.Confirmed.Sent, in.Tenure.TriedAt = now-2*second, now-2*second }
	test(t, asPrimary, []decision{
		{"renewed when it answers", func(_ *Config, in *Input) { due(in) }, "Renew", "RenewingLease"},
		{"not before it is due", nil, "Wait{}", ""},
		{"not while a write is under way", func(_ *Config, in *Input) {
			due(in)
			in.Tenure.Pending = &Write{Sent: now - second, Lease: in.Lease.Lease}
		}, "Wait{}", ""},
		{"not when it does not answer", func(_ *Config, in *Input) {
			due(in)
			in.Server.HeartbeatAt = now - 2100*time.Millisecond
		}, "Wait{}", ""},
		{"nor is time asked for then", func(_ *Config, in *Input) {
			due(in)
			in.Server.HeartbeatAt, in.Lease.FailedAt = now-2100*time.Millisecond, now
		}, "Wait{}", ""},
		{"renewed when it does not answer, and no other instance could lead", func(_ *Config, in *Input) {
			due(in)
			in.Server.HeartbeatAt, in.Peers = now-time.Minute, nil
		}, "Renew", ""},
		{"renewed once more when it does not answer, for who could lead is not listed yet", func(_ *Config, in *Input) {
			due(in)
			in.Server.HeartbeatAt, in.Lease.Lease.Instances = now-time.Minute, []string{"pg-0"}
			in.Tenure.Confirmed.Lease.Instances = in.Lease.Lease.Instances
		}, "Renew", ""},
		{"12: renewed on a full disk", func(_ *Config, in *Input) {
			due(in)
			in.Server.HeartbeatAt, in.Server.FullDisk = now-time.Minute, true
		}, "Renew", ""},
		{"renewed while it recovers", func(_ *Config, in *Input) {
			due(in)
			in.Server.Process, in.Server.ProcessSince = Starting, now-30*second
		}, "Renew", ""},
		{"not when that takes too long", func(_ *Config, in *Input) {
			due(in)
			in.Server.Process, in.Server.ProcessSince, in.Tenure.AcquiredAt = Starting, now-70*second, now-80*second
		}, "Wait{}", ""},
		{"unless it advances", func(_ *Config, in *Input) {
			due(in)
			in.Server.Process, in.Server.ProcessSince, in.Tenure.AcquiredAt, in.Server.RecoveryAdvancedAt = Starting, now-700*second, now-800*second, now-59*second
		}, "Renew", ""},
		{"a promotion that advances has its time too", func(_ *Config, in *Input) {
			due(in)
			in.Server.Process, in.Server.ProcessSince, in.Tenure.AcquiredAt, in.Server.RecoveryAdvancedAt = Promoting, now-700*second, now-800*second, now-59*second
		}, "Renew", ""},
		{"one that hangs has not", func(_ *Config, in *Input) {
			due(in)
			in.Server.Process, in.Server.ProcessSince, in.Tenure.AcquiredAt, in.Server.RecoveryAdvancedAt = Promoting, now-700*second, now-800*second, now-61*second
		}, "Wait{}", ""},
		{"unless no other instance could lead", func(_ *Config, in *Input) {
			due(in)
			in.Server.Process, in.Server.ProcessSince, in.Peers = Starting, now-70*second, nil
			in.Tenure.AcquiredAt = now - 80*second
		}, "Renew", ""},
		{"released when what hung is dead", func(_ *Config, in *Input) {
			crash(in)
			in.Server.CrashedAt, in.Server.UnresponsiveAt = 0, now-3*second
			in.Tenure.Confirmed.Sent = now - 10*second
		}, "Release", "Unresponsive"},
		{"taken back where it hung before it was taken", func(_ *Config, in *Input) {
			crash(in)
			in.Server.CrashedAt, in.Server.UnresponsiveAt = 0, now-11*second
			in.Tenure.Confirmed.Sent = now - 10*second
		}, "Acquire", "ReacquiringLease"},
		{"taken back when only the API server was missing", func(_ *Config, in *Input) {
			crash(in)
			in.Server.CrashedAt = 0
			in.Tenure.Confirmed.Sent = now - 10*second
		}, "Acquire", "ReacquiringLease"},
	})
	test(t, freeLease, []decision{
		{"renewed once more before a promotion", func(_ *Config, in *Input) {
			ownLease(in)
			in.Lease.Lease.Timeline = 4
			in.Tenure.Confirmed, in.Tenure.TriedAt = Write{Sent: now - 3*second, Lease: in.Lease.Lease}, now-second/10
			in.Tenure.AcquiredAt = now - 3*second
		}, "Wait{}", "renewal"},
		{"promoted after that", func(_ *Config, in *Input) {
			ownLease(in)
			in.Lease.Lease.Timeline = 4
			in.Tenure.Confirmed, in.Tenure.AcquiredAt = Write{Sent: now - second, Lease: in.Lease.Lease}, now-second
			in.Tenure.TriedAt = now - second
		}, "Promote{3}", "Promoting"},
	})
}

// candidates has the peers take the Lease when it is free, or not.
func candidates(in *Input, yes bool) {
	in.Peers = maps.Clone(in.Peers)
	for name, a := range in.Peers {
		a.State.Candidate, a.State.API = yes, true
		in.Peers[name] = a
	}
}

// 5. The Lease is released when PostgreSQL is down, not before.
func TestRelease_onlyWhenStopped(t *testing.T) {
	test(t, asPrimary, []decision{
		{"SIGTERM: stops first", func(_ *Config, in *Input) { in.ShuttingDown = true }, "Stop{fast false}", ""},
		{"waits for that", func(_ *Config, in *Input) {
			in.ShuttingDown = true
			in.Server.Process, in.Server.StopMode, in.Server.ProcessSince = Stopping, Fast, now-second
		}, "Wait{}", "stopping"},
		{"stops harder when that takes too long", func(_ *Config, in *Input) {
			in.ShuttingDown = true
			in.Server.Process, in.Server.StopMode, in.Server.ProcessSince = Stopping, Fast, now-31*second
		}, "Stop{immediate false}", "too long"},
		{"then releases", func(_ *Config, in *Input) { in.ShuttingDown = true; down(in) }, "Release", ""},
		{"then exits", func(_ *Config, in *Input) {
			in.ShuttingDown = true
			down(in)
			in.Lease.Lease.Holder, in.Lease.Lease.Released = Holder{}, true
		}, "Exit{}", ""},
		{"exits without it when no instance waits any more", func(_ *Config, in *Input) {
			in.ShuttingDown = true
			down(in)
			in.Tenure.Confirmed.Sent, in.Lease.FailedAt = now-21*second, now
		}, "Exit{}", ""},
		{"hibernated: writes a checkpoint and stops", func(c *Config, in *Input) { c.Hibernated = true; candidates(in, false) }, "Checkpoint{}", "hibernated"},
		{"hibernated: releases when it has stopped", func(c *Config, in *Input) { c.Hibernated = true; down(in) }, "Release", "hibernated"},
		{"hibernated: not before the others know of it", func(c *Config, in *Input) {
			c.Hibernated = true
			candidates(in, true)
		}, "Wait{}", ""},
		{"fenced: stops, and releases", func(c *Config, in *Input) { c.Fenced = true; down(in) }, "Release", "fenced"},
		{"crashed: starts again", func(_ *Config, in *Input) { crash(in) }, "StartPrimary{}", ""},
		{"crashed long after the last time: starts again", func(_ *Config, in *Input) {
			crash(in)
			in.Server.PreviousCrashAt = now - 61*second
		}, "StartPrimary{}", ""},
		{"crashed soon after: releases", func(_ *Config, in *Input) {
			crash(in)
			in.Server.PreviousCrashAt = now - 50*second
		}, "Release", "crashed again"},
		{"7: not while the Lease can't be released", func(_ *Config, in *Input) {
			crash(in)
			in.Server.PreviousCrashAt, in.Server.ProcessSince, in.Server.CrashedAt = now-50*second, now-3*second, now-3*second
			in.Lease.FailedAt = now
		}, "StartPrimary{}", ""},
		{"12: not on a full disk", func(_ *Config, in *Input) {
			crash(in)
			in.Server.PreviousCrashAt, in.Server.FullDisk = now-50*second, true
		}, "Wait{}", "VolumeFull"},
		{"12: tries again now and then", func(_ *Config, in *Input) {
			crash(in)
			in.Server.FullDisk, in.Server.ProcessSince, in.Server.CrashedAt = true, now-61*second, now-61*second
		}, "StartPrimary{}", ""},
		{"nor if no instance can take over", func(_ *Config, in *Input) {
			crash(in)
			in.Server.PreviousCrashAt, in.Peers = now-50*second, nil
			in.Server.ProcessSince, in.Server.CrashedAt = now-3*second, now-3*second
		}, "StartPrimary{}", ""},
		{"nor if no instance did", func(_ *Config, in *Input) {
			crash(in)
			in.Server.PreviousCrashAt = now - 50*second
			in.Tenure.AcquiredAt = now
		}, "StartPrimary{}", ""},
		{"lost its data: releases", func(_ *Config, in *Input) { crash(in); in.Server.Data = NeedsReclone }, "Release", "NoUsableData"},
	})
	c, in := asPrimary()
	down(&in)
	in.ShuttingDown, c.SwitchoverTarget = true, "pg-2"
	got := Decide(c, in).Action.(Release).Lease
	want := record(Holder{})
	want.Released, want.Preferred, want.CleanShutdown = true, "pg-2", true
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the record of the release: %s", diff)
	}
}

// 7. Without API server: every peer promises, or the deadline holds.
func TestDecide_requestsPromises(t *testing.T) {
	late := func(in *Input) {
		in.Tenure.Confirmed.Sent, in.Tenure.TriedAt, in.Lease.FailedAt = now-30*second, now, now
		in.Tenure.Promises = map[string]time.Duration{"pg-1": now - 6*second, "pg-2": now - second}
		in.Tenure.PromisesRequestedAt = now
	}
	test(t, asPrimary, []decision{
		{"asks every peer", func(_ *Config, in *Input) {
			late(in)
			in.Tenure.PromisesRequestedAt = now - 2*second
		}, "RequestPromises{[pg-1 pg-2]}", ""},
		{"goes on without one of an instance that the Lease does not name", func(_ *Config, in *Input) {
			late(in)
			delete(in.Tenure.Promises, "pg-2")
			in.Lease.Lease.Instances = []string{"pg-0", "pg-1"}
			in.Tenure.Confirmed.Lease = in.Lease.Lease
		}, "Wait{}", "PrimaryReady"},
		{"not while an unanswered write may name it again", func(_ *Config, in *Input) {
			late(in)
			delete(in.Tenure.Promises, "pg-2")
			in.Tenure.Indeterminate = []Write{{Sent: now - 8*second, Lease: in.Lease.Lease}}
			in.Lease.Lease.Instances = []string{"pg-0", "pg-1"}
			in.Tenure.Confirmed.Lease = in.Lease.Lease
		}, "Stop", ""},
		{"asks also while only writes fail", func(_ *Config, in *Input) {
			late(in)
			in.Tenure.PromisesRequestedAt, in.Lease.ReadAt, in.Lease.FailedAt = now-2*second, now, now-second
			in.Tenure.Indeterminate = []Write{{Sent: now - 3*second, Lease: in.Lease.Lease}}
		}, "RequestPromises{[pg-1 pg-2]}", ""},
		{"goes on with every promise", func(_ *Config, in *Input) { late(in) }, "Wait{}", "PrimaryReady"},
		{"not with an old one", func(_ *Config, in *Input) {
			late(in)
			in.Tenure.Promises["pg-1"] = now - 7*second
		}, "Stop", ""},
		{"not without one", func(_ *Config, in *Input) { late(in); delete(in.Tenure.Promises, "pg-1") }, "Stop", ""},
		{"not without one of a peer that left, and that the Lease still names", func(c *Config, in *Input) {
			late(in)
			c.Instances = c.Instances[:2]
			delete(in.Tenure.Promises, "pg-2")
		}, "Stop", ""},
		{"not if it is off", func(c *Config, in *Input) { late(in); c.Failsafe = false }, "Stop", ""},
	})
	test(t, freeLease, []decision{
		{"a promise keeps it from taking the Lease: it follows on", func(_ *Config, in *Input) { in.PromisedUntil = now + second }, "Follow{pg-1}", "FollowingNewPrimary"},
		{"and from taking one that was released", func(_ *Config, in *Input) {
			in.Lease.Lease.Holder, in.Lease.Lease.Released, in.PromisedUntil = Holder{}, true, now+second
		}, "Wait{}", "promised"},
		{"until it ends", func(_ *Config, in *Input) { in.PromisedUntil = now }, "Acquire", ""},
		{"and from taking its own back", func(_ *Config, in *Input) { ownLease(in); in.PromisedUntil = now + second }, "Wait{}", "promised"},
		{"and from promoting", func(_ *Config, in *Input) {
			ownLease(in)
			in.Lease.Lease.Timeline = 4
			in.Tenure.Confirmed, in.Tenure.AcquiredAt = Write{Sent: now - second, Lease: in.Lease.Lease}, now-second
			in.Tenure.TriedAt, in.PromisedUntil = now-second, now+second
		}, "Wait{}", "promised"},
	})
}

func TestPromise_answers(t *testing.T) {
	holder, reads := Holder{Name: "pg-1", UID: "b"}, false
	for _, tc := range []struct {
		name   string
		change func(in *Input)
		want   bool
	}{
		{"granted without API server", func(*Input) {}, true},
		{"granted with one that takes no writes: the asker reads it too", func(in *Input) { in.Lease.FailedAt, reads = 0, true }, true},
		{"then rejected to another than the holder", func(in *Input) {
			in.Lease.FailedAt, reads = 0, true
			in.Lease.Lease.Holder.UID = "c"
		}, false},
		{"rejected when no instance was seen to hold it", func(in *Input) { in.Lease.Lease.Holder = Holder{} }, false},
		{"granted by one that has not read the Lease", func(in *Input) { in.Lease = Observation{} }, true},
		{"rejected with API server", func(in *Input) { in.Lease.FailedAt = 0 }, false},
		{"rejected to another than the holder", func(in *Input) { in.Lease.Lease.Holder.UID = "c" }, false},
		{"rejected when the Lease was free", func(in *Input) {
			in.Lease.Lease.Holder, in.Lease.Lease.Released = Holder{}, true
		}, false},
		{"rejected by a primary", func(in *Input) { in.Server.Role = Primary }, false},
		{"rejected while taking the Lease", func(in *Input) { in.Tenure.Pending = &Write{Sent: now} }, false},
		{"rejected after taking it without answer", func(in *Input) { in.Tenure.Indeterminate = []Write{{Sent: now}} }, false},
		{"rejected by the holder", func(in *Input) { in.Tenure.Confirmed.Sent = now }, false},
	} {
		c, in := asStandby()
		in.Lease.FailedAt, reads = now, false
		tc.change(&in)
		r := Promise(c, in, holder, reads)
		if r.Granted != tc.want || r.Granted && r.Until != now+10*second {
			t.Errorf("%s: %+v", tc.name, r)
		}
	}
}
