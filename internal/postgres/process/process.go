// Package proc finds and kills processes by what /proc tells of them. It imports next to nothing, as the watchdog lives on
// it.
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
	// State is one letter; "Z" has ended, and nobody has asked how.
	State string
	// CPU is the time that it has run.
	CPU time.Duration
}

// List returns all that can be seen. Those that end meanwhile are left out.
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

// Get returns one process; ok is false if there is none.
func Get(pid int) (p Process, ok bool) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return p, false
	}
	// pid (name) state parent ...; the name can have anything in it.
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

// clockTick is the unit of times in /proc: USER_HZ is 100 on all machines that Go runs on.
const clockTick = 10 * time.Millisecond

// Selector tells by what a process counts as a user of some data.
type Selector struct {
	// Dirs are the folders that it works in: one of them is its current one.
	Dirs []string
	// LockFile is the file that it has open as LockFD.
	LockFile string
}

// LockFD is the number of the lock's file in the processes of PostgreSQL: the first after the standard ones.
const LockFD = 3

// PIDs are the processes that use the data, but for this one and the one that started it.
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
	held, err := os.Readlink(filepath.Join(dir, "fd", strconv.Itoa(LockFD)))
	return err == nil && held == u.LockFile
}

// Kill sends SIGKILL to all users, and returns how many there were. None is left only if there were none: a process that
// is killed may have started another one, and may take a moment to end.
func (u Selector) Kill() (int, error) {
	pids := u.PIDs()
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return len(pids), fmt.Errorf("kill process %d: %w", pid, err)
		}
	}
	return len(pids), nil
}
