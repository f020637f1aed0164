package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Owned is a process whose environment says that it belongs to the cluster.
type Owned struct {
	Identity
	Name   string // of the daemon that it is, or that started it
	Leader bool   // it is the daemon itself
}

// Owned finds all processes of the cluster, with or without a record.
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
			continue // it has ended
		}
		name, ok := s.daemon(environment)
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

// daemon takes the name of the daemon from an environment as the kernel shows it, if it is one of this owner's.
func (s *Supervisor) daemon(environment []byte) (string, bool) {
	mine, name := false, ""
	for v := range bytes.SplitSeq(environment, []byte{0}) {
		key, value, _ := strings.Cut(string(v), "=")
		switch key {
		case ownerVariable:
			mine = value == s.Owner
		case nameVariable:
			name = value
		}
	}
	return name, mine
}

// isShim says whether the process is containerd's parent of a pod's containers. It leads a session of its own too.
func isShim(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	program, _, _ := bytes.Cut(line, []byte{0})
	return err == nil && bytes.Contains(program, []byte("containerd-shim"))
}
