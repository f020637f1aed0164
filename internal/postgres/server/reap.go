package server

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fettle-dev/fettle/internal/postgres/process"
)

// managed are the children that this program waits for. All other children are orphans that Reap waits for.
var managed = struct {
	sync.Mutex
	pids map[int]bool
}{pids: map[int]bool{}}

// StartChild starts a program. Use WaitChild to wait for it: Reap ignores it.
func StartChild(cmd *exec.Cmd) error {
	managed.Lock()
	defer managed.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	managed.pids[cmd.Process.Pid] = true
	return nil
}

// WaitChild waits for a program that was started with StartChild.
func WaitChild(cmd *exec.Cmd) error {
	err := cmd.Wait()
	managed.Lock()
	defer managed.Unlock()
	delete(managed.pids, cmd.Process.Pid)
	return err
}

// runChild runs a program until it exits, on a locked thread. See Server.launch.
func runChild(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := StartChild(cmd); err != nil {
		return err
	}
	return WaitChild(cmd)
}

// Reap waits for orphaned processes that become children of this process, until the context is done. They come from killed
// postmasters and from archive commands, and would stay zombies if this process is PID 1. While Reap runs, start programs
// only with this package: it would reap other children too.
func Reap(ctx context.Context) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a child subreaper: %w", err)
	}
	sigchld := make(chan os.Signal, 1)
	signal.Notify(sigchld, syscall.SIGCHLD)
	defer signal.Stop(sigchld)
	// One signal can stand for several exits, and a process may have exited before this point: poll as well.
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		reapOrphans()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-sigchld:
		case <-ticker.C:
		}
	}
}

func reapOrphans() {
	managed.Lock()
	defer managed.Unlock()
	self := os.Getpid()
	for _, p := range process.List() {
		if p.Parent == self && p.State == "Z" && !managed.pids[p.PID] {
			var status syscall.WaitStatus
			_, _ = syscall.Wait4(p.PID, &status, syscall.WNOHANG, nil) // the next poll finds it again
		}
	}
}
