// Package localcluster injects machine faults into the cluster of `make up`: it kills or stops processes, and isolates nodes. All nodes are
// network namespaces of this machine, so their processes are processes here.
package localcluster

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Process is a process on this machine. Its PID alone may be reused; together with its start time it is unique.
type Process struct {
	PID, Parent int
	// Start is in clock ticks after boot.
	Start uint64
	// Name of its program, without arguments.
	Name string
}

// Signal sends a signal to exactly that process. It returns an error if the process has exited.
func (p Process) Signal(signal syscall.Signal) error {
	held, err := os.FindProcess(p.PID) // refers to whatever process has the PID now
	if err != nil {
		return fmt.Errorf("process %d: %w", p.PID, err)
	}
	defer held.Release() //nolint:errcheck // it never fails
	now, err := read(p.PID)
	if err != nil {
		return fmt.Errorf("process %d: %w", p.PID, err)
	}
	if now.Start != p.Start {
		return fmt.Errorf("process %d: %w", p.PID, os.ErrProcessDone)
	}
	return held.Signal(signal)
}

func read(pid int) (Process, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Process{}, err
	}
	return parse(pid, string(stat))
}

// parse reads /proc/PID/stat. The program's name is in brackets and may contain blanks and brackets.
func parse(pid int, stat string) (Process, error) {
	begin, end := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if begin < 0 || end < begin {
		return Process{}, fmt.Errorf("process %d: its stat file has no name in brackets", pid)
	}
	const parent, start = 1, 19 // the fields 4 and 22 of proc(5), counted from the one after the name
	fields := strings.Fields(stat[end+1:])
	if len(fields) <= start {
		return Process{}, fmt.Errorf("process %d: its stat file has only %d fields", pid, len(fields))
	}
	p := Process{PID: pid, Name: stat[begin+1 : end]}
	var err error
	if p.Parent, err = strconv.Atoi(fields[parent]); err != nil {
		return p, fmt.Errorf("process %d: its parent: %w", pid, err)
	}
	if p.Start, err = strconv.ParseUint(fields[start], 10, 64); err != nil {
		return p, fmt.Errorf("process %d: its start: %w", pid, err)
	}
	return p, nil
}

// Container returns the processes of a container, by its cgroup. id is the container ID in the pod's status: containerd://...
func Container(id string) ([]Process, error) {
	_, id, _ = strings.Cut(id, "://")
	if len(id) < 32 {
		return nil, fmt.Errorf("container %q: it has no ID yet", id)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var all []Process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue // not a process
		}
		groups, err := os.ReadFile("/proc/" + entry.Name() + "/cgroup")
		if err != nil || !inContainer(string(groups), id) {
			continue // it has exited, or belongs to another user
		}
		if p, err := read(pid); err == nil {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("container %s: it has no process on this machine", id)
	}
	return all, nil
}

// inContainer reports whether one of the cgroups, as in /proc/PID/cgroup, belongs to the container.
func inContainer(groups, id string) bool {
	for line := range strings.Lines(groups) {
		if strings.HasSuffix(strings.TrimSpace(line), "/"+id) {
			return true
		}
	}
	return false
}

// PostgreSQL returns the PostgreSQL processes of a container, its first process first.
func PostgreSQL(all []Process) []Process {
	server := slices.DeleteFunc(slices.Clone(all), func(p Process) bool { return p.Name != "postgres" })
	child := func(p Process) bool {
		return slices.ContainsFunc(server, func(q Process) bool { return q.PID == p.Parent })
	}
	slices.SortStableFunc(server, func(a, b Process) int {
		switch {
		case child(a) == child(b):
			return a.PID - b.PID
		case child(b):
			return -1
		}
		return 1
	})
	return server
}
