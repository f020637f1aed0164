package acks

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

// TestServer sends rows again to a real server that lost its answer. With their keys the rows are known. Without the keys they are
// duplicated, and reported.
func TestServer(t *testing.T) {
	conn := connected(t, testpg.NewRunning(t, "ledger"))
	if err := CreateTables(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	l := &Writer{options: Options{Name: "x", AnswerTimeout: time.Minute}}
	writes := func(row int64, known, heard bool) {
		t.Helper()
		answer, err := l.write(t.Context(), pgSession{conn}, row)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Known != known || answer.Position == 0 || len(answer.Server.Timeline) != 8 {
			t.Errorf("row %d: %+v", row, answer)
		}
		l.entries = append(l.entries, Entry{Row: row, Acknowledged: heard, Answer: answer})
	}
	holds := func(want Report) {
		t.Helper()
		got, err := Compare(t.Context(), conn, l)
		if got.Servers = nil; err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	writes(0, false, true)
	writes(1, false, false)
	writes(1, true, false)
	writes(1, true, true)
	holds(Report{Acknowledged: 2, Found: 2, Retried: 2, Known: 2})
	writes(2, false, false)
	if _, err := conn.Exec(t.Context(), "TRUNCATE acks_keys"); err != nil {
		t.Fatal(err)
	}
	writes(2, false, true)
	holds(Report{Acknowledged: 3, Found: 3, Retried: 3, Known: 2, Duplicated: 1})
}

func connected(t *testing.T, i *testpg.Instance) *pgx.Conn {
	t.Helper()
	options, err := pgx.ParseConfig("sslmode=disable passfile=/dev/null dbname=postgres")
	if err != nil {
		t.Fatal(err)
	}
	options.Host, options.Port, options.User = i.SocketDir(), uint16(i.Settings.Port), config.Superuser
	conn, err := pgx.ConnectConfig(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) }) // all answers have been read
	return conn
}
