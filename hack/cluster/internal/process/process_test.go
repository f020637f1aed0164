package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	tail := " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20\n"
	for name, test := range map[string]struct {
		stat   string
		start  uint64
		zombie bool
		fails  bool
	}{
		"plain":                   {stat: "42 (etcd) S" + tail, start: 4711},
		"spaces and brackets":     {stat: "42 (a b) R (c) S" + tail, start: 4711},
		"zombie":                  {stat: "42 (etcd) Z" + tail, start: 4711, zombie: true},
		"no name":                 {stat: "42 etcd S" + tail, fails: true},
		"too short":               {stat: "42 (etcd) S 1 2 3", fails: true},
		"start time not a number": {stat: "42 (etcd) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			start, zombie, err := parseStat([]byte(test.stat))
			if (err != nil) != test.fails {
				t.Fatalf("error %v, want one: %v", err, test.fails)
			}
			if !test.fails && (start != test.start || zombie != test.zombie) {
				t.Errorf("got %d, %v, want %d, %v", start, zombie, test.start, test.zombie)
			}
		})
	}
}

func TestIdentity(t *testing.T) {
	self, err := Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if !self.Alive() {
		t.Error("this process is reported as exited")
	}
	other, rebooted := self, self
	other.Start++
	rebooted.Boot = "another"
	if other.Alive() || rebooted.Alive() {
		t.Error("a process with a reused PID is reported as the recorded process")
	}
}

func newSupervisor(t *testing.T) *Supervisor {
	s := &Supervisor{Owner: t.TempDir(), Records: t.TempDir(), Logs: t.TempDir()}
	t.Cleanup(func() {
		if err := s.Stop(context.WithoutCancel(t.Context()), "sleeper", 0); err != nil {
			t.Error(err)
		}
	})
	return s
}

func ensure(t *testing.T, s *Supervisor, spec Spec) (bool, int) {
	t.Helper()
	started, err := s.Ensure(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	state := s.State(spec.Name)
	if !state.Running {
		t.Fatal("the daemon is not running")
	}
	return started, state.PID
}

func TestEnsure(t *testing.T) {
	s := newSupervisor(t)
	spec := Spec{Name: "sleeper", Path: "sleep", Args: []string{"60"}}
	if started, _ := ensure(t, s, spec); !started {
		t.Error("the first call did not start the daemon")
	}
	_, first := ensure(t, s, spec)
	if started, second := ensure(t, s, spec); started || second != first {
		t.Error("a running daemon was restarted")
	}
	spec.Version = "2"
	started, third := ensure(t, s, spec)
	if !started || third == first {
		t.Error("a daemon with a new Version was not restarted")
	}
	if err := Kill(t.Context(), []Identity{mustIdentify(t, third)}, 0); err != nil {
		t.Fatal(err)
	}
	if started, _ := ensure(t, s, spec); !started {
		t.Error("a killed daemon was not restarted")
	}
}

func TestEnsure_replacesDaemonWithoutRecord(t *testing.T) {
	s := newSupervisor(t)
	spec := Spec{Name: "sleeper", Path: "sleep", Args: []string{"60"}}
	_, first := ensure(t, s, spec)
	lost := mustIdentify(t, first)
	if err := os.Remove(s.recordFile("sleeper")); err != nil {
		t.Fatal(err)
	}
	if _, second := ensure(t, s, spec); second == first {
		t.Error("a daemon without a record was not replaced")
	}
	if lost.Alive() {
		t.Error("the old daemon is still running")
	}
}

func TestStop_ignoresReusedPID(t *testing.T) {
	s := newSupervisor(t)
	unrelated := exec.Command("sleep", "60")
	if err := unrelated.Start(); err != nil {
		t.Fatal(err)
	}
	id := mustIdentify(t, unrelated.Process.Pid)
	t.Cleanup(func() {
		_ = unrelated.Process.Kill()
		_ = unrelated.Wait()
	})
	stale := record{Identity: id}
	stale.Start-- // the PID was reused after the daemon exited
	data, err := json.Marshal(stale)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.recordFile("sleeper"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(t.Context(), "sleeper", time.Second); err != nil {
		t.Fatal(err)
	}
	if !id.Alive() {
		t.Error("an unrelated process with the daemon's PID was killed")
	}
}

func TestKill_respectsContext(t *testing.T) {
	ignoresTerm := exec.Command("sh", "-c", `trap "" TERM; echo ready; exec sleep 60`)
	out, err := ignoresTerm.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := ignoresTerm.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = ignoresTerm.Process.Kill()
		_ = ignoresTerm.Wait()
	})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil { // the trap is set
		t.Fatal(err)
	}
	id := mustIdentify(t, ignoresTerm.Process.Pid)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := Kill(ctx, []Identity{id}, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the error of the context", err)
	}
	if !id.Alive() {
		t.Error("the process was killed before the grace period expired")
	}
}

func TestDaemonName(t *testing.T) {
	s := &Supervisor{Owner: "/var/lib/one"}
	for name, test := range map[string]struct {
		environment string
		owned       bool
	}{
		"own":         {"A=1\x00FETTLE_CLUSTER_OWNER=/var/lib/one\x00FETTLE_CLUSTER_PROCESS=etcd\x00", true},
		"other owner": {"FETTLE_CLUSTER_OWNER=/var/lib/one-more\x00FETTLE_CLUSTER_PROCESS=etcd\x00", false},
		"no owner":    {"A=FETTLE_CLUSTER_OWNER=/var/lib/one\x00", false},
		"empty":       {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			daemon, owned := s.daemonName([]byte(test.environment))
			if owned != test.owned || owned && daemon != "etcd" {
				t.Errorf("got %q, %v", daemon, owned)
			}
		})
	}
}

func mustIdentify(t *testing.T, pid int) Identity {
	t.Helper()
	id, err := Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	return id
}
