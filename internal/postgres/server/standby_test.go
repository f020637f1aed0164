package server_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/internal/postgres/sqlclient"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

func status(t *testing.T, c *sqlclient.Client) sqlclient.Status {
	t.Helper()
	s, err := c.Status(bounded(t))
	must(t, err)
	return s
}

// TestFailover promotes a standby, and rewinds the former primary, which has diverged, to follow it.
func TestFailover(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	ca := testpg.NewCA(t)
	old := ca.Primary(t, "shop-0")
	oldSession := old.Client(t)
	_, err := oldSession.EnsureSlots(ctx, []string{config.SlotName(1)})
	must(t, err)
	next := ca.Standby(t, "shop-1", old)
	next.Settings.Upstream.Slot = config.SlotName(1)
	next.Configure(t)
	nextSession := next.Client(t)
	wantStreaming(t, nextSession)
	waitStreaming(t, oldSession, "shop-1")

	// The old primary is disconnected and continues to write.
	next.Settings.Upstream = nil
	next.Configure(t)
	must(t, nextSession.TerminateWALReceiver(ctx))
	if s := status(t, nextSession); s.Receiver != nil {
		t.Errorf("a receiver is left: %+v", s.Receiver)
	}
	for range 5 {
		must(t, oldSession.Heartbeat(ctx))
	}
	promote(t, next, nextSession)
	wantDiverged(t, old, next)

	must(t, old.Rewind(ctx, ca.Source(next, "shop-0")))
	if standby, err := old.IsStandby(); err != nil || !standby {
		t.Fatalf("after the rewind: standby %v, %v", standby, err)
	}
	old.Settings.Upstream = new(ca.Upstream(next))
	old.Start(t)
	waitStreaming(t, nextSession, "shop-0")
	if s := status(t, oldSession); s.Timeline != 2 || !s.InRecovery {
		t.Errorf("status of the old primary: %+v", s)
	}
	// A crashed standby can be rewound as well, although pg_rewind alone rejects it.
	must(t, old.Process().Kill(ctx))
	must(t, old.Rewind(ctx, ca.Source(next, "shop-0")))
}

// TestSlots_standby: a standby retains only the WAL that others need.
func TestSlots_standby(t *testing.T) {
	ctx := bounded(t)
	ca := testpg.NewCA(t)
	primary := ca.Primary(t, "shop-0")
	standby := ca.Standby(t, "shop-1", primary)
	from, on := primary.Client(t), standby.Client(t)
	waitStreaming(t, from, "shop-1")
	slot := config.SlotName(2)
	_, err := on.EnsureSlots(ctx, []string{slot})
	must(t, err)
	at := func() wal.LSN {
		t.Helper()
		var text string
		must(t, openConn(t, standby).QueryRow(ctx, "SELECT restart_lsn::text FROM pg_replication_slots WHERE slot_name = $1", slot).Scan(&text))
		return lsn(t, text)
	}
	begin := at()
	for range 3 {
		must(t, from.Heartbeat(ctx))
	}
	written := status(t, from).Written
	waitFor(t, "the standby to replay it", func() bool { return status(t, on).Replayed >= written })
	for _, step := range []struct{ to, want wal.LSN }{{written - 8, written - 8}, {begin, written - 8}} {
		must(t, on.AdvanceSlots(ctx, map[string]wal.LSN{slot: step.to}))
		if got := at(); begin == 0 || got != step.want {
			t.Errorf("from %s: advanced to %s, and is at %s, want %s", begin, step.to, got, step.want)
		}
	}
	must(t, on.AdvanceSlots(ctx, map[string]wal.LSN{slot: written + 1<<30}))
	if got := at(); got < written || got > written+1<<20 {
		t.Errorf("advanced beyond what was replayed, or not at all: %s", got)
	}
	_, err = on.EnsureSlots(ctx, nil)
	must(t, err)
}

// wantStreaming waits until a standby streams with its slot: the change of the slot's name restarts its receiver.
func wantStreaming(t *testing.T, c *sqlclient.Client) {
	t.Helper()
	waitFor(t, "a receiver with the slot", func() bool {
		slot := ""
		must(t, c.Query(t.Context(), "SELECT coalesce(slot_name, '') FROM pg_stat_wal_receiver", func(row pgx.CollectableRow) error { return row.Scan(&slot) }))
		return slot == config.SlotName(1)
	})
	if s := status(t, c); !s.InRecovery || s.Receiver == nil || s.Timeline != 1 || s.Written != 0 {
		t.Errorf("status of the standby: %+v, receiver %+v", s, s.Receiver)
	}
}

// waitStreaming waits until a standby has all WAL of its primary.
func waitStreaming(t *testing.T, primary *sqlclient.Client, name string) {
	t.Helper()
	waitFor(t, "a standby that streams", func() bool {
		s := status(t, primary)
		return len(s.Senders) == 1 && s.Senders[0].State == "streaming" && s.Senders[0].Name == name && s.Senders[0].Flushed == s.Written
	})
}

// promote promotes a standby, so that others can be rewound to it.
func promote(t *testing.T, i *testpg.Instance, c *sqlclient.Client) {
	t.Helper()
	ctx := bounded(t)
	must(t, i.Process().Promote())
	must(t, c.WaitPrimary(ctx))
	must(t, c.Heartbeat(ctx))
	if s := status(t, c); s.Timeline != 2 || s.InRecovery {
		t.Errorf("status after promotion: %+v", s)
	}
	must(t, c.Checkpoint(ctx))
}

// wantDiverged kills the old primary, and checks that its divergence is detected.
func wantDiverged(t *testing.T, old, next *testpg.Instance) {
	t.Helper()
	ctx := bounded(t)
	written := status(t, old.Client(t)).Written
	must(t, old.Process().Kill(ctx))
	timeline, end, err := old.Position(ctx)
	if err != nil || timeline != 1 || end < written {
		t.Errorf("the old one's position: %d, %s, %v; it had written to %s", timeline, end, err, written)
	}
	history, err := next.History(2)
	if err != nil || len(history) != 1 || history[0].Timeline != 1 || end <= history[0].SwitchPoint {
		t.Errorf("the new history: %v, %v", history, err)
	}
}

// TestRewind_preparedTransactions rewinds a primary that crashed with a prepared transaction.
func TestRewind_preparedTransactions(t *testing.T) {
	ctx := bounded(t)
	ca := testpg.NewCA(t)
	old := testpg.New(t, "shop-0")
	ca.EnableTLS(old)
	old.Settings.Parameters["max_prepared_transactions"] = "5"
	must(t, old.Init(ctx, server.InitOptions{WALSegmentSize: 1}))
	old.Start(t)
	must(t, old.Client(t).Prepare(ctx))
	conn := openConn(t, old)
	prepare := func(name string) {
		t.Helper()
		_, err := conn.Exec(ctx, "BEGIN; CREATE TABLE "+name+" (); PREPARE TRANSACTION '"+name+"'")
		must(t, err)
	}
	prepare("kept")
	next := testpg.New(t, "shop-1")
	ca.EnableTLS(next)
	next.Settings.Parameters["max_prepared_transactions"] = "5"
	must(t, next.Clone(ctx, ca.Source(old, "shop-1")))
	next.Start(t)
	promote(t, next, next.Client(t))
	prepare("lost")
	must(t, old.Process().Kill(ctx))

	must(t, old.Rewind(ctx, ca.Source(next, "shop-0")))
	old.Settings.Upstream = new(ca.Upstream(next))
	old.Start(t)
	waitStreaming(t, next.Client(t), "shop-0")
}

// TestRewind_failureKeepsControlFile: the control file stays readable after a failed pg_rewind.
func TestRewind_failureKeepsControlFile(t *testing.T) {
	ctx := bounded(t)
	ca := testpg.NewCA(t)
	i := testpg.NewRunning(t, "shop-0")
	i.Stop(t)
	before, err := i.ControlData(ctx)
	must(t, err)
	if err := i.Rewind(ctx, ca.Source(testpg.New(t, "shop-1"), "shop-0")); err == nil {
		t.Fatal("a rewind to an unreachable source succeeded")
	}
	after, err := i.ControlData(ctx)
	if err != nil || after != before {
		t.Errorf("%+v, %v; before: %+v", after, err, before)
	}
	i.Start(t)
}

func (l expiringContext) Err() error {
	if *l.left--; *l.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// TestStandby_minimums starts a standby with a lower max_connections than its primary.
func TestStandby_minimums(t *testing.T) {
	ctx := bounded(t)
	ca := testpg.NewCA(t)
	primary := ca.Primary(t, "shop-0")
	standby := testpg.New(t, "shop-1")
	ca.EnableTLS(standby)
	must(t, standby.Clone(ctx, ca.Source(primary, "shop-1")))
	control, err := standby.ControlData(ctx)
	must(t, err)
	standby.Settings.Parameters["max_connections"] = "30"
	standby.Settings.Minimums = control.Minimums
	standby.Settings.Upstream = new(ca.Upstream(primary))
	standby.Start(t)
	waitStreaming(t, primary.Client(t), "shop-1")
	if err := standby.Client(t).WaitSetting(ctx, "max_connections", "100"); err != nil {
		t.Error(err)
	}
}
