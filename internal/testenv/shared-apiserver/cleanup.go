package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fettle-dev/fettle/internal/testenv"
)

// segments are the POSIX shared memory of PostgreSQL servers; one that is killed leaves its segments behind.
const segments = "/dev/shm/PostgreSQL.*"

// reapTime is how long a process that was adopted and has ended may seem to run.
const reapTime = 20 * time.Millisecond

// prepareCleanUp makes this process the parent of every process below it that loses its own, and gives tests a folder in
// memory. The function that it returns ends those processes, and removes the folder and the segments that nobody maps.
func prepareCleanUp() (func() error, error) {
	started := time.Now().Add(-time.Second) // the times of files come from a coarser clock
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("adopt orphaned processes: %w", err)
	}
	dir, err := os.MkdirTemp(testenv.MemoryFolder(), "fettle-test-")
	if err != nil {
		return nil, fmt.Errorf("folder in memory: %w", err)
	}
	// PostgreSQL runs as another user than root, and its data lie below.
	if err := errors.Join(os.Chmod(dir, 0o711), os.Setenv(testenv.MemoryVariable, dir)); err != nil {
		return nil, err
	}
	return func() error {
		ended := endOrphans()
		removed := removeSegments(started)
		if ended > 0 || removed > 0 {
			fmt.Fprintf(os.Stderr, "shared-apiserver: ended %d processes and removed %d segments of shared memory that tests left behind\n", ended, removed)
		}
		return os.RemoveAll(dir)
	}, nil
}

// children are the processes of which this one is the parent.
func children() []int {
	var pids []int
	tasks, _ := filepath.Glob("/proc/self/task/*/children") // any thread may be a parent
	for _, task := range tasks {
		raw, _ := os.ReadFile(task)
		for field := range strings.FieldsSeq(string(raw)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// reapOrphans waits for children that were adopted since, when they have ended, until the function that it returns is called. A process that
// has ended and that nobody has waited for seems to run: PostgreSQL does not start over the lock file of one.
func reapOrphans() (stop func()) {
	own, done, ended := children(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for ticker := time.NewTicker(reapTime); ; {
			select {
			case <-done:
				ticker.Stop()
				return
			case <-ticker.C:
			}
			for _, pid := range children() {
				if !slices.Contains(own, pid) { // who started those waits for them
					_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
				}
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// endOrphans kills the children of this process until there are none: the children of each become its own in turn.
func endOrphans() int {
	ended := 0
	for {
		left := children()
		if len(left) == 0 {
			return ended
		}
		for _, pid := range left {
			if reaped, _ := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); reaped == pid {
				continue // it had ended already
			}
			_ = syscall.Kill(pid, syscall.SIGKILL)
			_, _ = syscall.Wait4(pid, nil, 0, nil)
			ended++
		}
	}
}

// removeSegments removes segments that were made since a time and that no process maps. Servers of others stay whole: a
// postmaster maps its control segment for as long as it runs.
func removeSegments(since time.Time) int {
	used := map[string]bool{}
	maps, _ := filepath.Glob("/proc/[0-9]*/maps")
	for _, file := range maps {
		raw, _ := os.ReadFile(file)
		for line := range strings.Lines(string(raw)) {
			if at := strings.Index(line, "/dev/shm/"); at >= 0 {
				used[strings.TrimSpace(line[at:])] = true
			}
		}
	}
	removed := 0
	found, _ := filepath.Glob(segments)
	for _, path := range found {
		info, err := os.Stat(path)
		if err != nil || used[path] || info.ModTime().Before(since) {
			continue
		}
		if os.Remove(path) == nil {
			removed++
		}
	}
	return removed
}
