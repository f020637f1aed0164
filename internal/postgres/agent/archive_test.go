package agent

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

// TestFillGaps_archives recovers to the latest timeline from an archive of a cluster that left timelines out.
func TestFillGaps_archives(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	archive, ca := testpg.Dir(t), testpg.NewCA(t)
	archiving := "cp -n %p " + archive + "/%f"
	first := testpg.New(t, "db-0")
	ca.EnableTLS(first)
	first.Settings.ArchiveCommand = archiving
	must(first.Init(ctx, server.InitOptions{WALSegmentSize: 1}))
	first.Start(t)
	must(first.Client(t).Prepare(ctx))
	restored := testpg.New(t, "restored-0")
	ca.EnableTLS(restored)
	must(restored.Clone(ctx, ca.Source(first, "restored-0")))

	next := testpg.New(t, "db-1")
	ca.EnableTLS(next)
	must(next.Clone(ctx, ca.Source(first, "db-1")))
	next.Settings.ArchiveCommand = archiving
	next.Start(t)
	must(reserveSkippedTimelines(next.DataDir(), 1, 3)) // 2 and 3 were claimed, and came to nothing
	own(t, next)
	must(next.Process().Promote())
	session := next.Client(t)
	must(session.WaitPrimary(ctx))
	status, err := session.Status(ctx)
	must(err)
	if status.Timeline != 4 {
		t.Fatalf("promoted to timeline %d", status.Timeline)
	}
	history, err := next.History(4)
	must(err)
	exec := func(statement string) {
		t.Helper()
		must(session.Query(ctx, statement, func(pgx.CollectableRow) error { return nil }))
	}
	exec("SELECT lo_create(4711)") // the row that must not be lost
	for done := false; !done; time.Sleep(50 * time.Millisecond) {
		done, err = fillGaps(next.DataDir(), 4, timelineSwitches(history))
		must(err)
		must(ctx.Err())
	}
	own(t, next)
	exec("SELECT pg_switch_wal()")
	for len(glob(t, archive, "0000000[23].history")) < 2 || len(glob(t, archive, "00000004????????????????")) == 0 {
		must(ctx.Err())
		exec("SELECT pg_switch_wal() FROM (SELECT lo_create(0)) x") // the archiver looks when a segment is full
		time.Sleep(50 * time.Millisecond)
	}
	next.Stop(t)

	must(restored.SetStandby(false))
	must(os.WriteFile(filepath.Join(restored.DataDir(), "recovery.signal"), nil, 0o644)) //nolint:gosec // PostgreSQL may run as another user
	restored.Settings.RestoreCommand = "cp " + archive + "/%f %p"
	restored.Start(t)
	again := restored.Client(t)
	must(again.WaitPrimary(ctx))
	found := false
	must(again.Query(ctx, "SELECT 1 FROM pg_largeobject_metadata WHERE oid = 4711", func(pgx.CollectableRow) error { found = true; return nil }))
	if status, err = again.Status(ctx); err != nil || !found || status.Timeline != 5 {
		t.Errorf("recovered to timeline %d, with the row %v, %v", status.Timeline, found, err)
	}
}

func glob(t *testing.T, parts ...string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// own gives the files of the log to the user that PostgreSQL runs as in tests.
func own(t *testing.T, i *testpg.Instance) {
	t.Helper()
	c := testpg.Credential(t)
	for _, path := range append(glob(t, i.DataDir(), "pg_wal", "*"), glob(t, i.DataDir(), "pg_wal", "archive_status", "*.ready")...) {
		if c != nil {
			_ = os.Chown(path, int(c.Uid), int(c.Gid)) // it may have been archived meanwhile
		}
	}
}
