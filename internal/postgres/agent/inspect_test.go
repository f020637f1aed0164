package agent

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/fettle-dev/fettle/internal/postgres/election"
	"github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

// slowControl has pg_controldata hang in one of its calls: the one after so many.
func slowControl(t *testing.T, after int) *Agent {
	t.Helper()
	i := testpg.New(t, "db-0")
	if err := i.Init(t.Context(), server.InitOptions{WALSegmentSize: 1}); err != nil {
		t.Fatal(err)
	}
	programs, slow := testpg.Binaries(t), testpg.Dir(t)
	passes := ""
	for n := range after {
		passes += fmt.Sprintf("mkdir %s/pass%d 2>/dev/null || ", slow, n)
	}
	script := fmt.Sprintf("#!/bin/sh\n%s{ mkdir %s/asked 2>/dev/null && exec sleep 600; }\nexec %s/pg_controldata \"$@\"\n", passes, slow, programs.Dir)
	if err := os.WriteFile(filepath.Join(slow, "pg_controldata"), []byte(script), 0o755); err != nil { //nolint:gosec // PostgreSQL's user runs it
		t.Fatal(err)
	}
	late, err := server.New(server.Options{
		Binaries: server.Binaries{Dir: slow, Major: programs.Major, Version: programs.Version}, Credential: testpg.Credential(t),
		Volume: filepath.Dir(i.DataDir()), RunDir: i.SocketDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return &Agent{
		server: late, inbox: make(chan func(), 8), ctx: t.Context(), log: slog.New(slog.DiscardHandler),
		options: Options{Volume: filepath.Dir(i.DataDir())},
	}
}

// TestBoot_longLog has the log of a former primary take long to read: it goes on without, and does not pass for one that knows its end.
func TestBoot_longLog(t *testing.T) {
	t.Parallel()
	a := slowControl(t, 1) // it is known, and asked again where the log is read
	a.boot()
	(<-a.inbox)()
	if !a.booted || a.own.Role != election.Primary || a.own.Exact || a.own.SystemID == "" || a.own.Data != election.Usable {
		t.Errorf("booted %v with %+v", a.booted, a.own)
	}
}

// TestBoot_unknown has even the control file of a former primary not be read: the agent waits for it.
func TestBoot_unknown(t *testing.T) {
	t.Parallel()
	a := slowControl(t, 0)
	if err := a.Started(); err == nil {
		t.Error("started before the loop turned")
	}
	a.tickedAt.Store(1)
	if err := a.Started(); err != nil {
		t.Errorf("not started while the data are inspected: %v", err)
	}
	a.boot()
	(<-a.inbox)()
	if !a.booted || !a.own.Exact || a.own.SystemID == "" {
		t.Errorf("booted %v with %+v", a.booted, a.own)
	}
}

// TestInspectAgain_position has the first look at the data take too long. By what nobody has seen a copy that was just made would pass
// for data that have left the primary's history, and be rewound.
func TestInspectAgain_position(t *testing.T) {
	t.Parallel()
	a := slowControl(t, 0)
	result := a.inspectUntilDone(t.Context())
	if result.err != nil || result.systemID == "" || result.position.Timeline != 1 {
		t.Fatalf("the second look: %+v", result)
	}
	(<-a.inbox)()
	if a.lastError != errVolumeTimeout.Error() {
		t.Errorf("meanwhile the trouble is %q, want %q", a.lastError, errVolumeTimeout)
	}
}
