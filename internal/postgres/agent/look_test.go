package agent

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

// TestLookAgain has the first look at the data take too long. By what nobody has seen a copy that was just made would pass
// for data that have left the primary's history, and be rewound.
func TestLookAgain(t *testing.T) {
	t.Parallel()
	i := testpg.New(t, "db-0")
	if err := i.Init(t.Context(), server.InitOptions{WALSegmentSize: 1}); err != nil {
		t.Fatal(err)
	}
	programs, slow := testpg.Binaries(t), testpg.Dir(t)
	script := fmt.Sprintf("#!/bin/sh\nmkdir %s/asked 2>/dev/null && exec sleep 600\nexec %s/pg_controldata \"$@\"\n", slow, programs.Dir)
	if err := os.WriteFile(filepath.Join(slow, "pg_controldata"), []byte(script), 0o755); err != nil { //nolint:gosec // PostgreSQL's user runs it
		t.Fatal(err)
	}
	late, err := server.New(server.Options{
		Binaries: server.Binaries{Dir: slow, Major: programs.Major, Version: programs.Version}, Credential: testpg.Credential(t),
		Volume: filepath.Dir(i.DataDir()), Run: i.SocketDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	a := &Agent{
		server: late, inbox: make(chan func(), 8), life: t.Context(), log: slog.New(slog.DiscardHandler),
		options: Options{Volume: filepath.Dir(i.DataDir())},
	}
	result := a.lookWell(t.Context())
	if result.err != nil || result.systemID == "" || result.position.Timeline != 1 {
		t.Fatalf("the second look: %+v", result)
	}
	(<-a.inbox)()
	if a.trouble != errNoAnswer.Error() {
		t.Errorf("meanwhile the trouble is %q, want %q", a.trouble, errNoAnswer)
	}
}
