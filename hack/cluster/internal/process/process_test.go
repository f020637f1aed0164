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
		"blanks and brackets":     {stat: "42 (a b) R (c) S" + tail, start: 4711},
		"ended, not yet reaped":   {stat: "42 (etcd) Z" + tail, start: 4711, zombie: true},
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
		t.Error("this process is said to be dead")
	}
	other, rebooted := self, self
	other.Start++
	rebooted.Boot = "another"
	if other.Alive() || rebooted.Alive() {
		t.Error("a process that only has the same number is taken for the one that was recorded")
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
		t.Fatal("it does not run")
	}
	return started, state.PID
}

func TestEnsure(t *testing.T) {
	s := newSupervisor(t)
	spec := Spec{Name: "sleeper", Path: "sleep", Args: []string{"60"}}
	if started, _ := ensure(t, s, spec); !started {
		t.Error("the first call did not start it")
	}
	_, first := ensure(t, s, spec)
	if started, second := ensure(t, s, spec); started || second != first {
		t.Error("a daemon that ran already was started again")
	}
	spec.Version = "2"
	started, third := ensure(t, s, spec)
	if !started || third == first {
		t.Error("a daemon with another version was not restarted")
	}
	if err := Kill(t.Context(), []Identity{mustIdentify(t, third)}, 0); err != nil {
		t.Fatal(err)
	}
	if started, _ := ensure(t, s, spec); !started {
		t.Error("a daemon that was killed was not started again")
	}
}

func TestLostRecord(t *testing.T) {
	s := newSupervisor(t)
	spec := Spec{Name: "sleeper", Path: "sleep", Args: []string{"60"}}
	_, first := ensure(t, s, spec)
	lost := mustIdentify(t, first)
	if err := os.Remove(s.recordFile("sleeper")); err != nil {
		t.Fatal(err)
	}
	if _, second := ensure(t, s, spec); second == first {
		t.Error("a daemon without a record can't be told to be as it should be, and must be replaced")
	}
	if lost.Alive() {
		t.Error("two of it run now")
	}
}

func TestStopSparesOthers(t *testing.T) {
	s := newSupervisor(t)
	stranger := exec.Command("sleep", "60")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	id := mustIdentify(t, stranger.Process.Pid)
	t.Cleanup(func() {
		_ = stranger.Process.Kill()
		_ = stranger.Wait()
	})
	stale := record{Identity: id}
	stale.Start-- // the number was given to the stranger after the daemon had ended
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
		t.Error("a process that got the daemon's number was killed")
	}
}

func TestKillStopsWithItsContext(t *testing.T) {
	stubborn := exec.Command("sh", "-c", `trap "" TERM; echo ready; exec sleep 60`)
	out, err := stubborn.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := stubborn.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stubborn.Process.Kill()
		_ = stubborn.Wait()
	})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil { // the trap is set
		t.Fatal(err)
	}
	id := mustIdentify(t, stubborn.Process.Pid)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := Kill(ctx, []Identity{id}, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want that of the context", err)
	}
	if !id.Alive() {
		t.Error("it was killed before its grace was over")
	}
}

func TestDaemon(t *testing.T) {
	s := &Supervisor{Owner: "/var/lib/one"}
	for name, test := range map[string]struct {
		environment string
		mine        bool
	}{
		"mine":      {"A=1\x00FETTLE_CLUSTER_OWNER=/var/lib/one\x00FETTLE_CLUSTER_PROCESS=etcd\x00", true},
		"another's": {"FETTLE_CLUSTER_OWNER=/var/lib/one-more\x00FETTLE_CLUSTER_PROCESS=etcd\x00", false},
		"nobody's":  {"A=FETTLE_CLUSTER_OWNER=/var/lib/one\x00", false},
		"empty":     {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			daemon, mine := s.daemon([]byte(test.environment))
			if mine != test.mine || mine && daemon != "etcd" {
				t.Errorf("got %q, %v", daemon, mine)
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
