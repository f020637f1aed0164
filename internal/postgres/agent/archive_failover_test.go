package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/walarchive"
	"github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/internal/postgres/walfile"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

// giveTo gives a file to PostgreSQL's user.
func giveTo(t *testing.T, path string) {
	t.Helper()
	if c := testpg.Credential(t); c != nil {
		if err := os.Chown(path, int(c.Uid), int(c.Gid)); err != nil {
			t.Error(err)
		}
	}
}

// withArchiver makes an instance archive through an archiver.
func withArchiver(t *testing.T, i *testpg.Instance, program string, b *testBucket) *archiver {
	t.Helper()
	o := Options{WALProgram: program, Run: i.SocketDir()}
	i.Settings.ArchiveCommand = o.archiveCommand()
	log := slog.New(slog.DiscardHandler)
	a := newArchiver(t.Context(), log, filepath.Join(i.DataDir(), "pg_wal"), b.open)
	if err := listenSocket(t.Context(), log, walfile.Socket(o.Run), walHandler(a.Archive, nil)); err != nil {
		t.Fatal(err)
	}
	giveTo(t, walfile.Socket(o.Run))
	return a
}

// TestArchive_failover clones a standby and kills the primary while the store is away. Recovery from the archive then finds what the standby had, and what was
// written after the promotion: the archive has no gap.
func TestArchive_failover(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	b, program, ca := newTestBucket(t), testpg.WALProgram(t), testpg.NewCA(t)
	first := testpg.New(t, "db-0")
	ca.EnableTLS(first)
	primary := withArchiver(t, first, program, b)
	must(first.Init(ctx, server.InitOptions{WALSegmentSize: 1}))
	first.Start(t)
	client := first.Client(t)
	must(client.Prepare(ctx))
	status, err := client.Status(ctx)
	must(err)
	view := primaryView()
	view.systemID = status.SystemID
	primary.update(view)
	restored := testpg.New(t, "restored-0")
	ca.EnableTLS(restored)
	must(restored.Clone(ctx, ca.Source(first, "restored-0")))

	next := testpg.New(t, "db-1")
	ca.EnableTLS(next)
	successor := withArchiver(t, next, program, b)
	standby := view
	standby.primary = false
	successor.update(standby)
	write := func(i *testpg.Instance, large int) {
		t.Helper()
		none := func(pgx.CollectableRow) error { return nil }
		c := i.Client(t)
		must(c.Query(ctx, fmt.Sprintf("SELECT lo_create(%d)", large), none))
		must(c.Query(ctx, "SELECT pg_switch_wal()", none))
	}
	eventually := func(what string, done func() bool) {
		t.Helper()
		for begun := time.Now(); !done(); time.Sleep(50 * time.Millisecond) {
			if time.Since(begun) > 30*time.Second || ctx.Err() != nil {
				t.Fatalf("waited too long: %s\nprimary %+v, ready %v\nstandby %+v, ready %v",
					what, primary.Status(), primary.ready(10), successor.Status(), successor.ready(10))
			}
		}
	}
	waiting := func(a *archiver) int { return len(a.ready(1000)) }
	write(first, 4711)
	eventually("the primary archives", func() bool { return primary.Status().LastSegment != "" && waiting(primary) == 0 })

	b.setAway(t, true)
	must(next.Clone(ctx, ca.Source(first, "db-1"))) // with WAL that nobody has archived
	next.Settings.Upstream = new(ca.Upstream(first))
	next.Start(t)
	for i := range 3 {
		write(first, 4712+i)
	}
	eventually("the primary says that the store is away", func() bool {
		return primary.Status().Reason == databasev1alpha1.ReasonArchivingFailed && waiting(primary) >= 3
	})
	eventually("the standby keeps the segments", func() bool { return waiting(successor) >= 3 })
	must(first.Process().Kill(ctx))
	successor.update(view)
	must(next.Process().Promote())
	must(next.Client(t).WaitPrimary(ctx))
	view.timeline = 2
	successor.update(view)
	history, err := next.History(2)
	must(err)
	must(archiveInherited(next.DataDir(), timelineSwitches(history), 1<<20))
	own(t, next)
	b.setAway(t, false)
	write(next, 4720)
	eventually("the new primary archives", func() bool {
		return waiting(successor) == 0 && strings.HasPrefix(successor.Status().LastSegment, "00000002")
	})
	if log := next.Log.String(); strings.Contains(log, "archive command failed") {
		t.Error("PostgreSQL logged a failure within a minute")
	}
	next.Stop(t)

	recoverFrom(ctx, t, restored, program, b, status.SystemID)
	for _, large := range []int{4711, 4712, 4713, 4714, 4720} {
		found := false
		must(restored.Client(t).Query(ctx, fmt.Sprintf("SELECT 1 FROM pg_largeobject_metadata WHERE oid = %d", large),
			func(pgx.CollectableRow) error { found = true; return nil }))
		if !found {
			t.Errorf("row %d was lost", large)
		}
	}
}

// recoverFrom replays the whole archive.
func recoverFrom(ctx context.Context, t *testing.T, i *testpg.Instance, program string, b *testBucket, systemID string) {
	t.Helper()
	s, err := b.connect()
	if err != nil {
		t.Fatal(err)
	}
	fetcher, err := walarchive.NewFetcher(walarchive.New(s, systemID), filepath.Join(filepath.Dir(i.DataDir()), "wal"))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	fetch := func(ctx context.Context, file walfile.Request) error {
		err := fetchUntil(ctx, log, fetcher, file)
		if err == nil {
			giveTo(t, file.Path)
		}
		return err
	}
	o := Options{WALProgram: program, Run: i.SocketDir()}
	if err := listenSocket(t.Context(), log, walfile.Socket(o.Run), walHandler(nil, fetch)); err != nil {
		t.Fatal(err)
	}
	giveTo(t, walfile.Socket(o.Run))
	i.Settings.RestoreCommand = o.restoreCommand()
	signal := filepath.Join(i.DataDir(), "recovery.signal")
	if err := errors.Join(i.SetStandby(false), os.WriteFile(signal, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	giveTo(t, signal)
	i.Start(t)
	if err := i.Client(t).WaitPrimary(ctx); err != nil {
		t.Fatal(err)
	}
	if err := fetcher.Close(); err != nil {
		t.Error(err)
	}
}
