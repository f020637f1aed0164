package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Identity identifies a process uniquely. A PID alone is not unique, because the kernel reuses PIDs.
type Identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // start time in clock ticks since boot
	Boot  string `json:"boot"`  // boot ID of the kernel
}

// Identify reads the identity of a running process.
func Identify(pid int) (Identity, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Identity{}, err
	}
	start, zombie, err := parseStat(stat)
	if err != nil {
		return Identity{}, fmt.Errorf("process %d: %w", pid, err)
	}
	if zombie {
		return Identity{}, fmt.Errorf("process %d has exited", pid)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Identity{}, fmt.Errorf("read the boot ID: %w", err)
	}
	return Identity{PID: pid, Start: start, Boot: strings.TrimSpace(string(boot))}, nil
}

// Alive reports whether this process is still running.
func (i Identity) Alive() bool {
	now, err := Identify(i.PID)
	return err == nil && now == i
}

// parseStat parses /proc/PID/stat. It returns the start time, and whether the process is a zombie. The second field is the
// name of the program in brackets, which may contain spaces and brackets, so parseStat counts fields from the last bracket.
func parseStat(stat []byte) (start uint64, zombie bool, err error) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, false, errors.New("stat has no name in brackets")
	}
	fields := strings.Fields(string(stat[end+1:]))
	const state, startTime = 0, 19 // fields 3 and 22 of proc(5); field 3 follows the bracket
	if len(fields) <= startTime {
		return 0, false, fmt.Errorf("stat has %d fields after the name, want %d", len(fields), startTime+1)
	}
	start, err = strconv.ParseUint(fields[startTime], 10, 64)
	if err != nil {
		return 0, false, fmt.Errorf("parse the start time: %w", err)
	}
	return start, fields[state] == "Z" || fields[state] == "X", nil
}

// Kill sends SIGTERM to the processes, SIGKILL to those that still run after grace, and waits until all exited. If grace is 0,
// it sends only SIGKILL.
func Kill(ctx context.Context, processes []Identity, grace time.Duration) error {
	if grace > 0 {
		signal(processes, unix.SIGTERM)
		if done, err := waitExited(ctx, processes, grace); done || err != nil {
			return err
		}
	}
	signal(processes, unix.SIGKILL)
	if done, err := waitExited(ctx, processes, 10*time.Second); done || err != nil {
		return err
	}
	for _, p := range processes {
		if p.Alive() {
			return fmt.Errorf("process %d still exists 10 s after SIGKILL", p.PID)
		}
	}
	return nil
}

func signal(processes []Identity, sig unix.Signal) {
	for _, p := range processes {
		if p.Alive() {
			_ = unix.Kill(p.PID, sig) // the process may exit in between; waitExited checks the result
		}
	}
}

// waitExited waits until all processes exited, and returns false after the timeout. The error is the error of ctx.
func waitExited(ctx context.Context, processes []Identity, timeout time.Duration) (bool, error) {
	deadline := time.After(timeout)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for slices.ContainsFunc(processes, Identity.Alive) {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-deadline:
			return false, nil
		case <-ticker.C:
		}
	}
	return true, nil
}
