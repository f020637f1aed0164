package server_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/internal/postgres/session"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

func TestCloneOfNothingLeavesNothing(t *testing.T) {
	ctx := bounded(t)
	ca := testpg.NewCA(t)
	i := testpg.New(t, "shop-1")
	source := server.Source{Upstream: ca.Upstream(testpg.New(t, "shop-0")), ApplicationName: "shop-1"}
	err := i.Clone(ctx, source)
	if err == nil || !strings.Contains(err.Error(), "Connection refused") {
		t.Errorf("clone of a server that is down: %v", err)
	}
	for _, dir := range []string{i.DataDir(), i.CloneDir()} {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is there: %v", dir, err)
		}
	}
}

// TestInterruptedClone ends a copy in its middle: the data directory is not there, and the next one is whole.
func TestInterruptedClone(t *testing.T) {
	ctx := bounded(t)
	ca := testpg.NewCA(t)
	primary := ca.Primary(t, "shop-0")
	i := testpg.New(t, "shop-1")
	slow := ca.Source(primary, "shop-1")
	slow.MaxRate = 256
	short, cancel := context.WithCancel(ctx)
	result := make(chan error)
	go func() { result <- i.Clone(short, slow) }()
	waitFor(t, "the copy to begin", func() bool {
		_, err := os.Stat(filepath.Join(i.CloneDir(), "base"))
		return err == nil
	})
	if content, _ := i.Content(); content != server.Empty {
		t.Errorf("in the middle of a copy: %s", content)
	}
	cancel()
	if err := <-result; err == nil {
		t.Fatal("an interrupted copy was a success")
	}
	if content, _ := i.Content(); content != server.Empty {
		t.Errorf("after an interrupted copy: %s", content)
	}
	// As a killed agent would have left it.
	must(t, os.MkdirAll(filepath.Join(i.CloneDir(), "base"), 0o700))
	must(t, i.Clone(ctx, ca.Source(primary, "shop-1")))
	if standby, err := i.Standby(); err != nil || !standby {
		t.Errorf("a clone that is no standby: %v, %v", standby, err)
	}
}

func status(t *testing.T, c *session.Client) session.Status {
	t.Helper()
	s, err := c.Status(bounded(t))
	must(t, err)
	return s
}

// TestFailover promotes a standby, writes on, and has the former primary, which wrote on by itself, follow.
func TestFailover(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	ca := testpg.NewCA(t)
	old := ca.Primary(t, "shop-0")
	oldSession := old.Session(t)
	_, err := oldSession.EnsureSlots(ctx, []string{config.SlotName(1)})
	must(t, err)
	next := ca.Standby(t, "shop-1", old)
	next.Settings.Upstream.Slot = config.SlotName(1)
	next.Configure(t)
	nextSession := next.Session(t)
	follows(t, oldSession, "shop-1")
	receives(t, nextSession)

	// The old one is cut off, and writes on.
	next.Settings.Upstream = nil
	next.Configure(t)
	must(t, nextSession.EndReceiver(ctx))
	if s := status(t, nextSession); s.Receiver != nil {
		t.Errorf("a receiver is left: %+v", s.Receiver)
	}
	for range 5 {
		must(t, oldSession.Heartbeat(ctx))
	}
	promote(t, next, nextSession)
	diverged(t, old, next)

	must(t, old.Rewind(ctx, ca.Source(next, "shop-0"), config.Restore{}))
	if standby, err := old.Standby(); err != nil || !standby {
		t.Fatalf("after the rewind: standby %v, %v", standby, err)
	}
	old.Settings.Upstream = new(ca.Upstream(next))
	old.Start(t)
	follows(t, nextSession, "shop-0")
	if s := status(t, oldSession); s.Timeline != 2 || !s.InRecovery {
		t.Errorf("status of the old primary: %+v", s)
	}
	// A standby that crashed can be rewound as well, although pg_rewind alone refuses it.
	must(t, old.Process().Kill(ctx))
	must(t, old.Rewind(ctx, ca.Source(next, "shop-0"), config.Restore{}))
}

// TestSlots_standby has a standby keep for others what they lack, and no more.
func TestSlots_standby(t *testing.T) {
	ctx := bounded(t)
	ca := testpg.NewCA(t)
	primary := ca.Primary(t, "shop-0")
	standby := ca.Standby(t, "shop-1", primary)
	from, on := primary.Session(t), standby.Session(t)
	follows(t, from, "shop-1")
	slot := config.SlotName(2)
	_, err := on.EnsureSlots(ctx, []string{slot})
	must(t, err)
	at := func() wal.LSN {
		t.Helper()
		var text string
		must(t, connect(t, standby).QueryRow(ctx, "SELECT restart_lsn::text FROM pg_replication_slots WHERE slot_name = $1", slot).Scan(&text))
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

// receives says whether a standby's own status tells that it streams by its slot.
func receives(t *testing.T, c *session.Client) {
	t.Helper()
	if s := status(t, c); !s.InRecovery || s.Receiver == nil || s.Receiver.Slot != config.SlotName(1) || s.Timeline != 1 || s.Written != 0 {
		t.Errorf("status of the standby: %+v, receiver %+v", s, s.Receiver)
	}
}

// follows waits until a standby has all of its primary's log.
func follows(t *testing.T, primary *session.Client, name string) {
	t.Helper()
	waitFor(t, "a standby that streams", func() bool {
		s := status(t, primary)
		return len(s.Senders) == 1 && s.Senders[0].State == "streaming" && s.Senders[0].Name == name && s.Senders[0].Flushed == s.Written
	})
}

// promote makes a standby a primary that others can rewind to.
func promote(t *testing.T, i *testpg.Instance, c *session.Client) {
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

// diverged kills the old primary, and says whether it is known that it wrote on.
func diverged(t *testing.T, old, next *testpg.Instance) {
	t.Helper()
	ctx := bounded(t)
	written := status(t, old.Session(t)).Written
	must(t, old.Process().Kill(ctx))
	timeline, end, err := old.Position(ctx)
	if err != nil || timeline != 1 || end < written {
		t.Errorf("the old one's position: %d, %s, %v; it had written to %s", timeline, end, err, written)
	}
	history, err := next.History(2)
	if err != nil || len(history) != 1 || !wal.Diverged(timeline, end, 2, history) {
		t.Errorf("the new history: %v, %v", history, err)
	}
}

// TestRewind_preparedTransactions rewinds a primary that crashed with a prepared transaction.
func TestRewind_preparedTransactions(t *testing.T) {
	ctx := bounded(t)
	ca := testpg.NewCA(t)
	old := testpg.New(t, "shop-0")
	ca.Secure(old)
	old.Settings.Parameters["max_prepared_transactions"] = "5"
	must(t, old.Init(ctx, server.InitOptions{WALSegmentSize: 1}))
	old.Start(t)
	must(t, old.Session(t).Prepare(ctx))
	conn := connect(t, old)
	prepare := func(name string) {
		t.Helper()
		_, err := conn.Exec(ctx, "BEGIN; CREATE TABLE "+name+" (); PREPARE TRANSACTION '"+name+"'")
		must(t, err)
	}
	prepare("kept")
	next := testpg.New(t, "shop-1")
	ca.Secure(next)
	next.Settings.Parameters["max_prepared_transactions"] = "5"
	must(t, next.Clone(ctx, ca.Source(old, "shop-1")))
	next.Start(t)
	promote(t, next, next.Session(t))
	prepare("lost")
	must(t, old.Process().Kill(ctx))

	must(t, old.Rewind(ctx, ca.Source(next, "shop-0"), config.Restore{}))
	old.Settings.Upstream = new(ca.Upstream(next))
	old.Start(t)
	follows(t, next.Session(t), "shop-0")
}

// TestClone_slowDisk stalls pg_basebackup for longer than the source's wal_sender_timeout.
func TestClone_slowDisk(t *testing.T) {
	ctx := bounded(t)
	ca := testpg.NewCA(t)
	primary := ca.Primary(t, "shop-0")
	primary.Settings.Parameters["wal_sender_timeout"] = "1s"
	primary.Configure(t)
	i := testpg.New(t, "shop-1")
	slow := ca.Source(primary, "shop-1")
	slow.MaxRate = 8 << 10
	result := make(chan error)
	go func() { result <- i.Clone(ctx, slow) }()
	var copying []int
	waitFor(t, "the copy to begin", func() bool {
		copying = processes(t, "--pgdata="+i.CloneDir())
		_, err := os.Stat(filepath.Join(i.CloneDir(), "base"))
		return err == nil && len(copying) == 2 // one for the data, one for the WAL
	})
	for _, pid := range copying {
		must(t, syscall.Kill(pid, syscall.SIGSTOP))
	}
	time.Sleep(3 * time.Second)
	for _, pid := range copying {
		must(t, syscall.Kill(pid, syscall.SIGCONT))
	}
	must(t, <-result)
}

// processes are those with an argument.
func processes(t *testing.T, argument string) (pids []int) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, path := range paths {
		content, _ := os.ReadFile(path) // it may have ended
		if slices.Contains(strings.Split(string(content), "\x00"), argument) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			must(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestRewindThatFails leaves a control file that can be read.
func TestRewindThatFails(t *testing.T) {
	ctx := bounded(t)
	ca := testpg.NewCA(t)
	i := testpg.Running(t, "shop-0")
	i.Stop(t)
	before, err := i.ControlData(ctx)
	must(t, err)
	if err := i.Rewind(ctx, ca.Source(testpg.New(t, "shop-1"), "shop-0"), config.Restore{}); err == nil {
		t.Fatal("a rewind to nobody was a success")
	}
	after, err := i.ControlData(ctx)
	if err != nil || after != before {
		t.Errorf("%+v, %v; before: %+v", after, err, before)
	}
	i.Start(t)
}

// TestPosition compares what is read from the files with what the server itself says, over many segments, a shutdown and
// a crash.
func TestPosition(t *testing.T) {
	ctx := bounded(t)
	i := testpg.Running(t, "shop-0")
	conn := connect(t, i)
	for _, statement := range []string{
		"CREATE TABLE many AS SELECT repeat('x', 900) AS text FROM generate_series(1, 9000)",
		"INSERT INTO many SELECT repeat('y', 1000 + n) FROM generate_series(1, 3000) n",
		"SELECT pg_switch_wal()", "CHECKPOINT", "INSERT INTO many VALUES ('z')",
		"SELECT pg_logical_emit_message(true, 'test', repeat('m', 3000000))",
		"INSERT INTO many SELECT repeat('w', 1000) FROM generate_series(1, 500)",
	} {
		_, err := conn.Exec(ctx, statement)
		must(t, err)
		end := position(t, i)
		var text string
		must(t, conn.QueryRow(ctx, "SELECT pg_current_wal_flush_lsn()::text").Scan(&text))
		// A server that runs may have written a little more meanwhile, by itself.
		if flushed := lsn(t, text); end+64<<10 < flushed {
			t.Errorf("%s: read up to %s, and the server says %s", statement, end, flushed)
		}
	}
	must(t, i.Process().Kill(ctx))
	end := position(t, i)
	continued(t, i, end)
	i.Start(t)
	match := regexp.MustCompile(`redo done at (\S+)`).FindStringSubmatch(i.Log.String())
	if match == nil {
		t.Fatalf("no recovery: %s", i.Log)
	}
	// The last record may be as large as the message was.
	if last := lsn(t, match[1]); last >= end || end-last > 4<<20 {
		t.Errorf("read up to %s, and recovery's last record is at %s", end, last)
	}
	i.Stop(t)
	control, err := i.ControlData(ctx)
	must(t, err)
	// The record of the shutdown's checkpoint is the last one.
	if end := position(t, i); end <= control.Checkpoint || end-control.Checkpoint > 200 {
		t.Errorf("read up to %s, and the last checkpoint is at %s", end, control.Checkpoint)
	}
}

// continued interrupts a look at the log shortly before its end: the next one has little left to read.
func continued(t *testing.T, i *testpg.Instance, end wal.LSN) {
	t.Helper()
	const many = 1 << 30
	left := many
	_, _, err := i.Position(lapsing{bounded(t), &left})
	must(t, err)
	all := many - left
	left = all - 1
	if _, at, err := i.Position(lapsing{bounded(t), &left}); err == nil {
		t.Fatalf("not interrupted, and read up to %s", at)
	}
	left = all / 2
	if _, at, err := i.Position(lapsing{bounded(t), &left}); err != nil || at != end {
		t.Errorf("after an interruption: read up to %s, want %s, %v", at, end, err)
	}
}

// lapsing is a context that ends after it was asked so often whether it has.
type lapsing struct {
	context.Context

	left *int
}

func (l lapsing) Err() error {
	if *l.left--; *l.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

func position(t *testing.T, i *testpg.Instance) wal.LSN {
	t.Helper()
	timeline, end, err := i.Position(bounded(t))
	must(t, err)
	if timeline != 1 {
		t.Fatalf("on timeline %d", timeline)
	}
	return end
}

func lsn(t *testing.T, text string) wal.LSN {
	t.Helper()
	at, err := wal.ParseLSN(text)
	must(t, err)
	return at
}

// TestStandbyIsNeverBelowItsPrimary starts a standby that is to have fewer connections than its primary still has.
func TestStandbyIsNeverBelowItsPrimary(t *testing.T) {
	ctx := bounded(t)
	ca := testpg.NewCA(t)
	primary := ca.Primary(t, "shop-0")
	standby := testpg.New(t, "shop-1")
	ca.Secure(standby)
	must(t, standby.Clone(ctx, ca.Source(primary, "shop-1")))
	control, err := standby.ControlData(ctx)
	must(t, err)
	standby.Settings.Parameters["max_connections"] = "30"
	standby.Settings.Minimums = control.Minimums
	standby.Settings.Upstream = new(ca.Upstream(primary))
	standby.Start(t)
	follows(t, primary.Session(t), "shop-1")
	if err := standby.Session(t).WaitSetting(ctx, "max_connections", "100"); err != nil {
		t.Error(err)
	}
}
