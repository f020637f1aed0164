// Package process finds and kills processes by their entries in /proc. It imports very little because the watchdog depends
// on it.
package process

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
)

// Process is an entry of /proc.
type Process struct {
	PID, Parent int
	// State is one letter. "Z" is a zombie: the process has exited, but its parent has not waited for it.
	State string
	// CPU is the CPU time that the process has used.
	CPU time.Duration
}

// List returns all visible processes. Processes that exit during the scan are left out.
func List() []Process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var all []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := Get(pid); ok {
			all = append(all, p)
		}
	}
	return all
}

// Get returns one process. ok is false if the process does not exist.
func Get(pid int) (p Process, ok bool) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return p, false
	}
	// Format: pid (name) state parent ... The name can contain any character.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const state, parent, user, system = 0, 1, 11, 12
	if len(fields) <= system {
		return p, false
	}
	p = Process{PID: pid, State: fields[state]}
	p.Parent, err = strconv.Atoi(fields[parent])
	userTicks, _ := strconv.ParseInt(fields[user], 10, 64)
	systemTicks, _ := strconv.ParseInt(fields[system], 10, 64)
	p.CPU = time.Duration(userTicks+systemTicks) * clockTick
	return p, err == nil
}

// clockTick is the unit of times in /proc. USER_HZ is 100 on all platforms that Go supports.
const clockTick = 10 * time.Millisecond

// Selector matches the processes that use a data directory.
type Selector struct {
	// Dirs are possible working directories of the processes.
	Dirs []string
	// LockFile is the lock file that the processes hold open as lockFD.
	LockFile string
}

// lockFD is the descriptor of the lock file in PostgreSQL processes: the first one after the standard ones.
const lockFD = 3

// PIDs returns the matching processes, except this process and its parent.
func (u Selector) PIDs() []int {
	var pids []int
	self, parent := os.Getpid(), os.Getppid()
	for _, p := range List() {
		if p.PID != self && p.PID != parent && p.State != "Z" && u.matches(p.PID) {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

func (u Selector) matches(pid int) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	if cwd, err := os.Readlink(filepath.Join(dir, "cwd")); err == nil && slices.Contains(u.Dirs, cwd) {
		return true
	}
	held, err := os.Readlink(filepath.Join(dir, "fd", strconv.Itoa(lockFD)))
	return err == nil && held == u.LockFile
}

// Kill sends SIGKILL to all matching processes and returns their number. Repeat it until the number is 0: a killed process
// may have forked, and it may take a moment to exit.
func (u Selector) Kill() (int, error) {
	pids := u.PIDs()
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return len(pids), fmt.Errorf("kill process %d: %w", pid, err)
		}
	}
	return len(pids), nil
}
