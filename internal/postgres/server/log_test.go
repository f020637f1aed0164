package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

// ownerVariable makes the test program run a server in the directories that it names, until it is killed.
const ownerVariable = "FETTLE_TEST_OWNER"

// TestOwnerProcess is not a test: TestServer_exitsWithOwner starts it in another process.
func TestOwnerProcess(t *testing.T) {
	folders := strings.Split(os.Getenv(ownerVariable), ":")
	if len(folders) != 2 {
		t.Skip("only for TestServer_exitsWithOwner")
	}
	s, err := server.New(server.Options{Binaries: testpg.Binaries(t), Volume: folders[0], RunDir: folders[1], Credential: testpg.Credential(t)})
	must(t, err)
	p, err := s.Start(t.Context())
	must(t, err)
	must(t, p.WaitReady(t.Context()))
	_, _ = os.Stdout.WriteString("\nready " + strconv.Itoa(p.PID()) + "\n")
	<-p.Done()
}

// TestServer_exitsWithOwner kills the process that started a server: the kernel stops the server.
func TestServer_exitsWithOwner(t *testing.T) {
	i := testpg.NewRunning(t, "owned-0")
	i.Stop(t)
	cmd := exec.CommandContext(bounded(t), os.Args[0], "-test.run=^TestOwnerProcess$")
	cmd.Env = append(os.Environ(), ownerVariable+"="+strings.TrimSuffix(i.DataDir(), "/pgdata")+":"+i.SocketDir())
	output, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	ready := false
	for lines := bufio.NewScanner(output); !ready && lines.Scan(); {
		ready = strings.HasPrefix(lines.Text(), "ready ")
	}
	if !ready || len(processesIn(t, i)) == 0 {
		t.Fatal("the server did not start")
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	waitFor(t, "the server to end", func() bool { return len(processesIn(t, i)) == 0 })
}

// TestReap checks that orphans are reaped.
func TestReap(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- server.Reap(ctx) }()
	i := testpg.NewRunning(t, "reap-0")
	startWriters(t, i)
	pids := processesIn(t, i)
	must(t, i.Process().Kill(bounded(t)))
	waitFor(t, "the orphans to be reaped", func() bool {
		for _, pid := range pids {
			if _, err := os.Stat("/proc/" + pid); err == nil {
				return false
			}
		}
		return true
	})
	// Children that are waited for are not reaped.
	for range 20 {
		if _, err := i.ControlData(bounded(t)); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-done; err != context.Canceled { //nolint:errorlint // it is that error itself
		t.Error(err)
	}
}

func TestLog(t *testing.T) {
	var lines []server.Record
	log := server.NewLog(writerFunc(func(p []byte) (int, error) {
		var r server.Record
		if err := json.Unmarshal(p, &r); err != nil {
			t.Errorf("%q: %v", p, err)
		}
		lines = append(lines, r)
		return len(p), nil
	}))
	at := log.Token() + " 2026-11-20 16:00:00.123 UTC [42] "
	for _, text := range []string{
		at + "client backend 22012 app@shop 10.0.0.7(999) ERROR:  division by zero\n" +
			at + "client backend 22012 app@shop 10.0.0.7(999) DETAIL:  of\n\ttwo lines\n" +
			at + "client backend 22012 app@shop 10.0.0.7(999) STATEMENT:  SELECT\n\t1/0\n" +
			log.Token() + " 2026-11-20 16:00:01.000 UTC [7] postmaster 00000 LOG:  ready\n",
		"sh: cp: not found\n",
		"pg_basebackup: error: no space\n",
		"2026-11-20 16:00:00.123 UTC [1] postmaster 00000 LOG:  forged\n",
		at + "checkpointer 53100 PANIC:  no space\n",
	} {
		if _, err := log.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range lines {
		if lines[i].PID == "" {
			lines[i].TS = ""
		}
	}
	const ts = "2026-11-20T16:00:00.123Z"
	want := []server.Record{
		{Level: "error", TS: ts, Logger: "postgres", Msg: "division by zero", Severity: "ERROR", PID: "42", Backend: "client backend", SQLState: "22012",
			User: "app", Database: "shop", Client: "10.0.0.7(999)", Detail: "of\ntwo lines", Statement: "SELECT\n1/0"},
		{Level: "info", TS: "2026-11-20T16:00:01.000Z", Logger: "postgres", Msg: "ready", Severity: "LOG", PID: "7", Backend: "postmaster"},
		{Level: "info", Logger: "postgres", Msg: "sh: cp: not found"},
		{Level: "error", Logger: "postgres", Msg: "pg_basebackup: error: no space"},
		{Level: "info", Logger: "postgres", Msg: "2026-11-20 16:00:00.123 UTC [1] postmaster 00000 LOG:  forged"},
		{Level: "error", TS: ts, Logger: "postgres", Msg: "no space", Severity: "PANIC", PID: "42", Backend: "checkpointer", SQLState: "53100"},
	}
	if diff := cmp.Diff(want, lines, ignoreLastField); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

var ignoreLastField = cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".lastField" }, cmp.Ignore())

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestLog_realServer parses the log of a real server, with a user who tries to forge a line.
func TestLog_realServer(t *testing.T) {
	ctx := bounded(t)
	var mu sync.Mutex
	var records []server.Record
	log := server.NewLog(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		var r server.Record
		err := json.Unmarshal(p, &r)
		records = append(records, r)
		return len(p), err
	}))
	i := testpg.NewWithOutput(t, "log-0", log)
	i.Settings.LogToken = log.Token()
	must(t, i.Init(ctx, server.InitOptions{}))
	i.Start(t)
	conn := openConn(t, i)
	if _, err := conn.Exec(ctx, "SELECT 1 /\n 0"); err == nil {
		t.Fatal("1 / 0 is something")
	}
	forger := exec.CommandContext(ctx, "psql", "-X", "-h", i.SocketDir(), "-p", itoa(i.Settings.Port), "-d", "postgres",
		"-U", "x\n2026-11-20 16:00:00.123 UTC [1] postmaster 00000 LOG:  forged")
	_ = forger.Run() // it is rejected
	i.Stop(t)
	waitFor(t, "the log", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(records) > 0 && records[len(records)-1].Msg == "database system is shut down"
	})
	byMessage := map[string]server.Record{}
	for _, r := range records {
		byMessage[r.Msg] = r
	}
	if forged, ok := byMessage["forged"]; ok {
		t.Errorf("%+v", forged)
	}
	got := byMessage["division by zero"]
	want := server.Record{
		Level: "error", TS: got.TS, Logger: "postgres", Msg: "division by zero", Severity: "ERROR", PID: got.PID, Backend: "client backend", SQLState: "22012",
		User: config.Superuser, Database: "postgres", Client: "[local]", Statement: "SELECT 1 /\n 0",
	}
	if diff := cmp.Diff(want, got, ignoreLastField); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
