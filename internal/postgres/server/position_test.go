package server_test

import (
	"context"
	"regexp"
	"testing"

	"github.com/fettle-dev/fettle/internal/postgres/wal"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

// TestPosition compares the position read from the files with that of the server, over many segments, a shutdown and a
// crash.
func TestPosition(t *testing.T) {
	ctx := bounded(t)
	i := testpg.NewRunning(t, "shop-0")
	conn := openConn(t, i)
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
		// A running server may have written more in the background.
		if flushed := lsn(t, text); end+64<<10 < flushed {
			t.Errorf("%s: read up to %s, and the server says %s", statement, end, flushed)
		}
	}
	must(t, i.Process().Kill(ctx))
	end := position(t, i)
	wantResumedScan(t, i, end)
	i.Start(t)
	match := regexp.MustCompile(`redo done at (\S+)`).FindStringSubmatch(i.Log.String())
	if match == nil {
		t.Fatalf("no recovery: %s", i.Log)
	}
	// The last record may be as large as the message.
	if last := lsn(t, match[1]); last >= end || end-last > 4<<20 {
		t.Errorf("read up to %s, and recovery's last record is at %s", end, last)
	}
	i.Stop(t)
	control, err := i.ControlData(ctx)
	must(t, err)
	// The shutdown checkpoint is the last record.
	if end := position(t, i); end <= control.Checkpoint || end-control.Checkpoint > 200 {
		t.Errorf("read up to %s, and the last checkpoint is at %s", end, control.Checkpoint)
	}
}

// wantResumedScan interrupts a scan shortly before its end: the next one has little left to read.
func wantResumedScan(t *testing.T, i *testpg.Instance, end wal.LSN) {
	t.Helper()
	const many = 1 << 30
	left := many
	_, _, err := i.Position(expiringContext{bounded(t), &left})
	must(t, err)
	all := many - left
	left = all - 1
	if _, at, err := i.Position(expiringContext{bounded(t), &left}); err == nil {
		t.Fatalf("not interrupted, and read up to %s", at)
	}
	left = all / 2
	if _, at, err := i.Position(expiringContext{bounded(t), &left}); err != nil || at != end {
		t.Errorf("after an interruption: read up to %s, want %s, %v", at, end, err)
	}
}

// expiringContext is a context that is done after a number of calls of Err.
type expiringContext struct {
	context.Context

	left *int
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
