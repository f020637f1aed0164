package localcluster

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	rest := " S 7 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 1 2 3"
	for name, c := range map[string]struct {
		stat string
		want Process
		ok   bool
	}{
		"plain":               {"12 (postgres)" + rest, Process{12, 7, 4711, "postgres"}, true},
		"brackets and blanks": {"12 (a) b (c)" + rest, Process{12, 7, 4711, "a) b (c"}, true},
		"no name":             {"12 postgres", Process{}, false},
		"cut short":           {"12 (postgres) S 7", Process{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(12, c.stat)
			if (err == nil) != c.ok {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(c.want, got); c.ok && diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestInContainer(t *testing.T) {
	id := "0123456789abcdef0123456789abcdef"
	for groups, want := range map[string]bool{
		"4:memory:/c/n1/kubepods/burstable/pod1/" + id + "\n3:cpu:/\n": true,
		"0::/kubepods/pod1/" + id + "\n":                               true,
		"4:memory:/c/n1/kubepods/pod1/" + id + "0\n":                   false,
		"4:memory:/c/n1/kubepods/pod1/x" + id + "\n":                   false,
		"4:memory:/c/n1/kubepods/" + id + "/other\n":                   false,
		"": false,
	} {
		if got := inContainer(groups, id); got != want {
			t.Errorf("%q: %t, want %t", groups, got, want)
		}
	}
}

func TestPostgreSQL(t *testing.T) {
	all := []Process{{PID: 1, Name: "fettle"}, {PID: 20, Parent: 30, Name: "postgres"}, {PID: 30, Parent: 1, Name: "postgres"}, {PID: 40, Parent: 30, Name: "postgres"}}
	if diff := cmp.Diff([]Process{all[2], all[1], all[3]}, PostgreSQL(all)); diff != "" {
		t.Error(diff)
	}
}

// TestSignal checks that a process with a reused PID gets no signal.
func TestSignal(t *testing.T) {
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := read(child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if p.Parent != os.Getpid() {
		t.Errorf("the parent is %d, want %d", p.Parent, os.Getpid())
	}
	other := p
	other.Start++
	if err := other.Signal(syscall.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("a process with another start time: %v", err)
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if err := child.Wait(); err == nil {
		t.Error("it was not killed")
	}
	if err := p.Signal(syscall.SIGKILL); err == nil {
		t.Error("a process that has exited was signalled")
	}
}
