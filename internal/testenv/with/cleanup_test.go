package main

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/fettle-dev/fettle/internal/testenv"
)

// A command that leaves a process and a segment of shared memory behind: both go, and so does the folder in memory.
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
