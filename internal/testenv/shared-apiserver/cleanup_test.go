package main

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fettle-dev/fettle/internal/testenv"
)

// TestReapOrphans: an orphan that exits does not stay a zombie.
func TestReapOrphans(t *testing.T) {
	t.Setenv(testenv.MemoryVariable, "")
	clean, err := prepareCleanUp()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = clean() }() // the other test is about that
	command, out := exec.CommandContext(t.Context(), "sh", "-c", "sleep 0.1; sleep 0.2 >/dev/null 2>&1 & echo $!"), &strings.Builder{}
	command.Stdout = out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer reapOrphans()() // which leaves the command to who started it
	if err := command.Wait(); err != nil {
		t.Fatal(err)
	}
	orphan, err := strconv.Atoi(strings.TrimSpace(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); syscall.Kill(orphan, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the process still seems to run after 10 s")
		}
	}
}

// TestCleanUp: a process and a shared memory segment that a command leaves behind are removed with the in-memory directory.
func TestCleanUp(t *testing.T) {
	t.Setenv(testenv.MemoryVariable, "")
	clean, err := prepareCleanUp()
	if err != nil {
		t.Fatal(err)
	}
	segment := strings.TrimSuffix(segments, "*") + strconv.Itoa(os.Getpid())
	if err := os.WriteFile(segment, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "sh", "-c", "sleep 300 >/dev/null 2>&1 & echo $!")
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	orphan, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	if err := clean(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(orphan, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the process still runs: %v", err)
	}
	for _, path := range []string{segment, os.Getenv(testenv.MemoryVariable)} {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
}
