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

// children are the processes that somebody in this program waits for; all others that become its children are orphans.
var children = struct {
	sync.Mutex
	pids map[int]bool
}{pids: map[int]bool{}}

// Start starts a program that is waited for with Wait: then nobody else buries it.
func Start(cmd *exec.Cmd) error {
	children.Lock()
	defer children.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	children.pids[cmd.Process.Pid] = true
	return nil
}

// Wait waits for a program that was started with Start, and tells how it ended.
func Wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	children.Lock()
	defer children.Unlock()
	delete(children.pids, cmd.Process.Pid)
	return err
}

// run runs a program to its end, from a thread that lives as long: see Server.launch.
func run(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := Start(cmd); err != nil {
		return err
	}
	return Wait(cmd)
}

// Reap buries the orphans that become children of this process, until the context ends: processes of a postmaster that
// was killed, and of archive commands. Without it they would stay as zombies in a container whose first process this is.
// Programs that are started other than by this package must not run meanwhile: it would bury them too.
func Reap(ctx context.Context) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans: %w", err)
	}
	dead := make(chan os.Signal, 1)
	signal.Notify(dead, syscall.SIGCHLD)
	defer signal.Stop(dead)
	// A signal can stand for more than one death, and one may come before this: look again now and then.
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		reapOrphans()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-dead:
		case <-again.C:
		}
	}
}

func reapOrphans() {
	children.Lock()
	defer children.Unlock()
	self := os.Getpid()
	for _, p := range process.List() {
		if p.Parent == self && p.State == "Z" && !children.pids[p.PID] {
			var status syscall.WaitStatus
			_, _ = syscall.Wait4(p.PID, &status, syscall.WNOHANG, nil) // the next look finds it again
		}
	}
}
