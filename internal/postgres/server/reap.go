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

// managed are the processes that somebody in this program waits for; all others that become its children are orphans.
var managed = struct {
	sync.Mutex
	pids map[int]bool
}{pids: map[int]bool{}}

// StartChild starts a program that is waited for with Wait: then nobody else buries it.
func StartChild(cmd *exec.Cmd) error {
	managed.Lock()
	defer managed.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	managed.pids[cmd.Process.Pid] = true
	return nil
}

// WaitChild waits for a program that was started with Start, and tells how it ended.
func WaitChild(cmd *exec.Cmd) error {
	err := cmd.Wait()
	managed.Lock()
	defer managed.Unlock()
	delete(managed.pids, cmd.Process.Pid)
	return err
}

// runChild runs a program to its end, from a thread that lives as long: see Server.launch.
func runChild(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := StartChild(cmd); err != nil {
		return err
	}
	return WaitChild(cmd)
}

// Reap buries the orphans that become children of this process, until the context ends: processes of a postmaster that
// was killed, and of archive commands. Without it they would stay as zombies in a container whose first process this is.
// Programs that are started other than by this package must not run meanwhile: it would bury them too.
func Reap(ctx context.Context) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans: %w", err)
	}
	sigchld := make(chan os.Signal, 1)
	signal.Notify(sigchld, syscall.SIGCHLD)
	defer signal.Stop(sigchld)
	// A signal can stand for more than one death, and one may come before this: look again now and then.
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
			_, _ = syscall.Wait4(p.PID, &status, syscall.WNOHANG, nil) // the next look finds it again
		}
	}
}
