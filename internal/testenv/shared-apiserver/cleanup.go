package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fettle-dev/fettle/internal/testenv"
)

// segments are the POSIX shared memory segments of PostgreSQL servers. A killed server leaves its segments behind.
const segments = "/dev/shm/PostgreSQL.*"

// prepareCleanUp makes this process a child subreaper, and creates an in-memory directory for tests. The returned function
// kills orphaned processes, and removes the directory and the shared memory segments that no process maps.
func prepareCleanUp() (func() error, error) {
	started := time.Now().Add(-time.Second) // file times have a coarser clock
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become a child subreaper: %w", err)
	}
	dir, err := os.MkdirTemp(testenv.MemoryFolder(), "fettle-test-")
	if err != nil {
		return nil, fmt.Errorf("create the in-memory directory: %w", err)
	}
	// PostgreSQL runs as another user than root, with its data below this directory.
	if err := errors.Join(os.Chmod(dir, 0o711), os.Setenv(testenv.MemoryVariable, dir)); err != nil {
		return nil, err
	}
	return func() error {
		ended := endOrphans()
		removed := removeSegments(started)
		if ended > 0 || removed > 0 {
			fmt.Fprintf(os.Stderr, "shared-apiserver: killed %d processes and removed %d shared memory segments left behind by tests\n", ended, removed)
		}
		return os.RemoveAll(dir)
	}, nil
}

// children are the child processes of this process.
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

// reapOrphans waits for adopted children that have exited, until the returned function is called. A zombie seems to run:
// PostgreSQL does not start if its lock file names one.
func reapOrphans() (stop func()) {
	own, done, ended, exits := children(), make(chan struct{}), make(chan struct{}), make(chan os.Signal, 1)
	signal.Notify(exits, syscall.SIGCHLD) // also for zombies that are adopted
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				signal.Stop(exits)
				return
			case <-exits:
			}
			for _, pid := range children() {
				if !slices.Contains(own, pid) { // os/exec waits for the others
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

// endOrphans kills the children of this process until there are none. The children of each become its own children.
func endOrphans() int {
	ended := 0
	for {
		left := children()
		if len(left) == 0 {
			return ended
		}
		for _, pid := range left {
			if reaped, _ := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); reaped == pid {
				continue // it had exited already
			}
			_ = syscall.Kill(pid, syscall.SIGKILL)
			_, _ = syscall.Wait4(pid, nil, 0, nil)
			ended++
		}
	}
}

// removeSegments removes segments created since a time that no process maps. Running servers are not affected: a postmaster
// maps its control segment while it runs.
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
