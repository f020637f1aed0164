package watchdog

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/process"
)

// agentVariable makes the test binary act as an agent. It has the directory and the deadline.
const agentVariable = "FETTLE_TEST_AGENT"

func TestMain(m *testing.M) {
	if folder, deadline, ok := strings.Cut(os.Getenv(agentVariable), " "); ok {
		runAgent(folder, deadline)
	}
	os.Exit(m.Run())
}

// runAgent sets one deadline, prints it, and does nothing more.
func runAgent(folder, deadline string) {
	after, err := time.ParseDuration(deadline)
	if err != nil {
		panic(err)
	}
	at := Now() + after
	if after == 0 {
		at = 0
	}
	w := New(options(folder, func(time.Duration) { fmt.Println(int64(at)) }))
	w.Prepare()
	w.SetDeadline(Now() + time.Hour) // the first one is confirmed in any case
	w.SetDeadline(at)
	w.Run(context.Background())
}

func options(folder string, confirmed func(time.Duration)) Options {
	return Options{
		Processes: process.Selector{Dirs: []string{folder}, LockFile: filepath.Join(folder, "lock")}, Log: slog.New(slog.NewJSONHandler(io.Discard, nil)),
		Start: (*exec.Cmd).Start, Wait: (*exec.Cmd).Wait, Confirmed: confirmed, Lost: func() {},
	}
}

// fakeServer is a process with a child, both with the same working directory. ended is closed when both have exited.
type fakeServer struct {
	folder string
	ended  chan struct{}
}

func newServer(t *testing.T) *fakeServer {
	t.Helper()
	s := &fakeServer{folder: t.TempDir(), ended: make(chan struct{})}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "sleep 300 & sleep 300")
	cmd.Dir = s.folder
	pipe, err := cmd.StdoutPipe() // the child has it too
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, pipe)
		_ = cmd.Wait()
		close(s.ended)
	}()
	t.Cleanup(func() {
		for left := 1; left > 0; time.Sleep(time.Millisecond) {
			left, _ = process.Selector{Dirs: []string{s.folder}}.Kill()
		}
		<-s.ended
	})
	return s
}

func (s *fakeServer) runs() bool {
	select {
	case <-s.ended:
		return false
	default:
		return len(process.Selector{Dirs: []string{s.folder}}.PIDs()) >= 2
	}
}

func (s *fakeServer) waitEnd(t *testing.T) {
	t.Helper()
	select {
	case <-s.ended:
	case <-time.After(30 * time.Second):
		t.Fatal("the processes live on after the deadline")
	}
}

func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("still not: " + what)
		}
	}
}

// watchdogPIDs are the watchdogs of a directory.
func watchdogPIDs(folder string) (pids []int) {
	entries, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, entry := range entries {
		content, _ := os.ReadFile(entry)
		if strings.HasPrefix(string(content), childName+"\x00"+folder) {
			pid, _ := strconv.Atoi(strings.Split(entry, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestWatchdog extends the deadline, then lets it pass.
func TestWatchdog(t *testing.T) {
	s := newServer(t)
	waitFor(t, "two processes", s.runs)
	var confirmed atomic.Int64
	w := New(options(s.folder, func(at time.Duration) { confirmed.Store(int64(at)) }))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx)
	}()
	var last time.Duration
	for range 20 {
		last = Now() + time.Minute
		w.SetDeadline(last)
		waitFor(t, "confirmed", func() bool { return time.Duration(confirmed.Load()) == last })
	}
	w.SetDeadline(0)
	waitFor(t, "confirmed that there is no deadline", func() bool { return confirmed.Load() == 0 })
	if !s.runs() {
		t.Fatal("it was killed before its time")
	}
	last = Now() + 700*time.Millisecond
	w.SetDeadline(last)
	s.waitEnd(t)
	// No process may write after the deadline, because another instance is promoted then. One second is for a busy machine.
	if early := last - Now(); early > killLead || early < -time.Second {
		t.Errorf("it was killed %s before its time", early)
	}
	cancel()
	<-ended
}

// TestWatchdog_noDeadline: without a deadline there is no process.
func TestWatchdog_noDeadline(t *testing.T) {
	folder := t.TempDir()
	w := New(options(folder, func(time.Duration) {}))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	w.SetDeadline(0)
	w.Run(ctx)
	if pids := watchdogPIDs(folder); len(pids) > 0 {
		t.Errorf("watchdogs %v run", pids)
	}
}

// TestWatchdog_isReplaced kills and then stops the watchdog. Each time a new one confirms the deadline, and the server
// keeps running.
func TestWatchdog_isReplaced(t *testing.T) {
	s := newServer(t)
	waitFor(t, "two processes", s.runs)
	var confirmed, lost atomic.Int64
	o := options(s.folder, func(at time.Duration) { confirmed.Store(int64(at)) })
	o.Lost = func() { lost.Add(1) }
	w := New(o)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx)
	}()
	for round, signal := range []syscall.Signal{0, syscall.SIGKILL, syscall.SIGSTOP} {
		before := watchdogPIDs(s.folder)
		for _, pid := range before {
			if err := syscall.Kill(pid, signal); err != nil {
				t.Fatal(err)
			}
		}
		at := Now() + time.Hour
		w.SetDeadline(at)
		waitFor(t, "confirmed", func() bool { return time.Duration(confirmed.Load()) == at })
		now := watchdogPIDs(s.folder)
		if len(now) != 1 || round > 0 && now[0] == before[0] {
			t.Errorf("round %d: watchdogs %v before, now %v", round, before, now)
		}
		if n := lost.Load(); n != int64(round) {
			t.Errorf("round %d: %d watchdogs were reported as lost", round, n)
		}
		if !s.runs() {
			t.Fatalf("round %d: the end of a watchdog ended what it watched", round)
		}
	}
	w.SetDeadline(0)
	waitFor(t, "confirmed", func() bool { return confirmed.Load() == 0 })
	cancel()
	<-ended
}

// TestWatchdog_agentStopped stops the agent, kills it, and kills it without a deadline.
func TestWatchdog_agentStopped(t *testing.T) {
	for _, c := range []struct {
		name     string
		deadline time.Duration
		signal   syscall.Signal
		dies     bool
	}{
		{"stopped", 2 * time.Second, syscall.SIGSTOP, true},
		{"killed", time.Hour, syscall.SIGKILL, true},
		{"killed without a deadline", 0, syscall.SIGKILL, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newServer(t)
			waitFor(t, "two processes", s.runs)
			agent := exec.CommandContext(t.Context(), "/proc/self/exe")
			agent.Env = []string{agentVariable + "=" + s.folder + " " + c.deadline.String()}
			output, err := agent.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := agent.Start(); err != nil {
				t.Fatal(err)
			}
			defer agent.Wait()
			defer agent.Process.Kill()
			var at int64
			if _, err := fmt.Fscan(output, &at); err != nil {
				t.Fatal(err)
			}
			if err := agent.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			if c.dies {
				s.waitEnd(t)
				if early := time.Duration(at) - Now(); c.signal == syscall.SIGSTOP && early > killLead {
					t.Errorf("it was killed %s before its time", early)
				}
				return
			}
			waitFor(t, "no watchdog is left", func() bool { return len(watchdogPIDs(s.folder)) == 0 })
			if !s.runs() {
				t.Error("it was killed")
			}
		})
	}
}
