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

// Identity names one process for good: a number alone is given again to another process, after a reboot from the start.
type Identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // in clock ticks after boot
	Boot  string `json:"boot"`  // the kernel's id of this boot
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
		return Identity{}, fmt.Errorf("process %d has ended", pid)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Identity{}, fmt.Errorf("read the id of this boot: %w", err)
	}
	return Identity{PID: pid, Start: start, Boot: strings.TrimSpace(string(boot))}, nil
}

// Alive says whether that very process still runs.
func (i Identity) Alive() bool {
	now, err := Identify(i.PID)
	return err == nil && now == i
}

// parseStat takes the start time and whether the process has ended from /proc/PID/stat. The second field is the name of
// the program in brackets and may itself hold blanks and brackets, so fields count from the last bracket.
func parseStat(stat []byte) (start uint64, zombie bool, err error) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, false, errors.New("its stat file has no name in brackets")
	}
	fields := strings.Fields(string(stat[end+1:]))
	const state, startTime = 0, 19 // the fields 3 and 22 of proc(5): after the bracket comes field 3
	if len(fields) <= startTime {
		return 0, false, fmt.Errorf("its stat file has %d fields after the name, %d are needed", len(fields), startTime+1)
	}
	start, err = strconv.ParseUint(fields[startTime], 10, 64)
	if err != nil {
		return 0, false, fmt.Errorf("its start time: %w", err)
	}
	return start, fields[state] == "Z" || fields[state] == "X", nil
}

// Kill ends the processes: SIGTERM, then SIGKILL for those that still run after grace (at once when grace is 0), and
// waits until they are gone.
func Kill(ctx context.Context, processes []Identity, grace time.Duration) error {
	if grace > 0 {
		signal(processes, unix.SIGTERM)
		if done, err := gone(ctx, processes, grace); done || err != nil {
			return err
		}
	}
	signal(processes, unix.SIGKILL)
	if done, err := gone(ctx, processes, 10*time.Second); done || err != nil {
		return err
	}
	for _, p := range processes {
		if p.Alive() {
			return fmt.Errorf("process %d is still there 10 s after SIGKILL", p.PID)
		}
	}
	return nil
}

func signal(processes []Identity, sig unix.Signal) {
	for _, p := range processes {
		if p.Alive() {
			_ = unix.Kill(p.PID, sig) // it may end meanwhile; gone has the last word
		}
	}
}

// gone waits until none of the processes runs. The error is that of a context that ended first.
func gone(ctx context.Context, processes []Identity, within time.Duration) (bool, error) {
	deadline := time.After(within)
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
