package election

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// 6. A planned stop comes after a checkpoint that was taken while clients were served, however long that took.
func TestPlannedStop_checkpointFirst(t *testing.T) {
	switching := func() (Config, Input) {
		c, in := asPrimary()
		c.SwitchoverTarget, c.SwitchoverRequested, c.TargetChangedAt = "pg-2", true, now-10*second
		return c, in
	}
	test(t, switching, []decision{
		{"checkpoint first", nil, "Checkpoint{}", "pg-2"},
		{"waits for it", func(_ *Config, in *Input) { in.Server.Checkpointing = true }, "Wait{}", "CheckpointBeforeStop"},
		{"then stops", func(_ *Config, in *Input) { in.Server.CheckpointedAt = now - second/10 }, "Stop{fast true}", "pg-2"},
		{"not after one that was taken long ago", func(_ *Config, in *Input) { in.Server.CheckpointedAt = now - 5*second }, "Checkpoint{}", ""},
		{"SIGTERM waits for none", func(_ *Config, in *Input) { in.ShuttingDown, in.Server.Checkpointing = true, true }, "Stop{fast false}", "AgentStopping"},
		{"hibernated", func(c *Config, in *Input) {
			c.Hibernated, in.Peers = true, nil
		}, "Checkpoint{}", "hibernated"},
		{"hibernated, after it", func(c *Config, in *Input) {
			c.Hibernated, in.Server.CheckpointedAt, in.Peers = true, now-second/10, nil
		}, "Stop{fast true}", "hibernated"},
		{"8: not again after it was cut off", func(_ *Config, in *Input) { in.Server.EscalatedAt = now - second }, "Wait{}", "did not stop within"},
		{"8: again when a person asks again", func(_ *Config, in *Input) { in.Server.EscalatedAt = now - 11*second }, "Checkpoint{}", ""},
		{"8: SIGTERM is obeyed", func(_ *Config, in *Input) { in.ShuttingDown, in.Server.EscalatedAt = true, now-second }, "Stop{fast false}", "AgentStopping"},
	})
	c, in := switching()
	for _, label := range []func(){func() {}, func() { in.Server.Checkpointing = true }} {
		if label(); Decide(c, in).Label != LabelPrimary {
			t.Error("a primary that takes a checkpoint before a switchover is not labelled as one")
		}
	}
}

// 8. Only a planned stop that had to be made harder keeps a switchover from being tried again.
func TestAfterStopOrder_remembersEscalation(t *testing.T) {
	for _, tc := range []struct {
		name   string
		orders []Stop
		forced bool
	}{
		{"in order", []Stop{{Mode: Fast, Planned: true}}, false},
		{"cut off", []Stop{{Mode: Fast, Planned: true}, {Mode: Immediate}, {Mode: Kill}}, true},
		{"of the pod", []Stop{{Mode: Fast}, {Mode: Immediate}}, false},
		{"at once", []Stop{{Mode: Immediate}, {Mode: Kill}}, false},
	} {
		s := Server{Process: Up, Role: Primary, Checkpointing: true, CheckpointedAt: second}
		for i, order := range tc.orders {
			s = s.AfterStopOrder(now+time.Duration(i)*second, order)
		}
		last := tc.orders[len(tc.orders)-1]
		if s.Process != Stopping || s.StopMode != last.Mode || s.Checkpointing || s.CheckpointedAt != 0 || s.EscalatedAt > 0 != tc.forced {
			t.Errorf("%s: %+v", tc.name, s)
		}
	}
}

// 6. A primary that stops waits for the one that is primary next, else for one that could; for all only if there should be no primary.
func TestSuccessors(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(c *Config, in *Input)
		want   []string
	}{
		{"all have caught up", func(*Config, *Input) {}, []string{"pg-1", "pg-2"}},
		{"one is to lead", func(c *Config, _ *Input) { c.SwitchoverTarget = "pg-2" }, []string{"pg-2"}},
		{"one is to lead, and is behind", func(c *Config, in *Input) {
			c.SwitchoverTarget, in.Standbys["pg-2"] = "pg-2", StandbyStatus{Streaming: true}
		}, []string{"pg-1"}},
		{"one is behind", func(_ *Config, in *Input) { in.Standbys["pg-1"] = StandbyStatus{Streaming: true} }, []string{"pg-2"}},
		{"all are behind", func(_ *Config, in *Input) { in.Standbys = nil }, nil},
		{"hibernated", func(c *Config, _ *Input) { c.Hibernated = true }, nil},
		{"a standby", func(_ *Config, in *Input) { in.Server.Role = Standby }, nil},
	} {
		c, in := asPrimary()
		tc.change(&c, &in)
		got := Successors(c, in)
		if len(got)+len(tc.want) > 0 && !cmp.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}
