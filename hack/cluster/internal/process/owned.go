package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Owned is a process of the cluster, recognized by its environment.
type Owned struct {
	Identity
	Name   string // name of its daemon
	Leader bool   // the daemon itself, not one of its child processes
}

// Owned lists all processes of the cluster, including those without a record.
func (s *Supervisor) Owned() ([]Owned, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var owned []Owned
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		environment, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err != nil {
			continue // the process exited
		}
		name, ok := s.daemonName(environment)
		if !ok {
			continue
		}
		id, err := Identify(pid)
		if err != nil {
			continue
		}
		session, err := unix.Getsid(pid)
		owned = append(owned, Owned{Identity: id, Name: name, Leader: err == nil && session == pid && !isShim(pid)})
	}
	return owned, nil
}

// daemonName returns the name of the daemon from the content of /proc/PID/environ, and whether the owner is s.Owner.
func (s *Supervisor) daemonName(environment []byte) (string, bool) {
	owned, name := false, ""
	for v := range bytes.SplitSeq(environment, []byte{0}) {
		key, value, _ := strings.Cut(string(v), "=")
		switch key {
		case ownerVariable:
			owned = value == s.Owner
		case nameVariable:
			name = value
		}
	}
	return name, owned
}

// isShim reports whether the process is a containerd-shim, the parent of a pod's containers. A shim is a session leader too.
func isShim(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	program, _, _ := bytes.Cut(line, []byte{0})
	return err == nil && bytes.Contains(program, []byte("containerd-shim"))
}
