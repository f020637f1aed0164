// Package process supervises the local cluster's daemons. Later commands find running daemons by their records, and are safe
// against reused PIDs.
package process

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ownerVariable is an environment variable of every daemon and of its child processes, such as containerd's shims. It
// identifies processes of the cluster even if their record was lost.
const (
	ownerVariable = "FETTLE_CLUSTER_OWNER"
	nameVariable  = "FETTLE_CLUSTER_PROCESS"
)

// maxLogSize is the size at which a log is rotated when its daemon starts.
const maxLogSize = 64 << 20

// Spec is a daemon to run.
type Spec struct {
	Name string // file name of its record and its log
	Path string
	Args []string
	Env  []string // KEY=value, added to the environment
	// NetNS is the file of the network namespace that the daemon runs in; empty means the host's.
	NetNS string
	// Version restarts the daemon when it changes. Usually it is the content of the configuration file.
	Version string
}

// record is the stored state of a running daemon.
type record struct {
	Identity
	Digest string `json:"digest"`
}

// Supervisor starts and stops daemons. Its directories have a record (NAME.json) and a log (NAME.log) for each daemon.
type Supervisor struct {
	Owner   string // the cluster's state directory; it separates the clusters on one machine
	Records string
	Logs    string
}

// Ensure starts the daemon of spec unless it is running. It restarts a daemon with other arguments, another Version or another
// network namespace. The result reports whether Ensure started the daemon.
func (s *Supervisor) Ensure(ctx context.Context, spec Spec) (bool, error) {
	digest := spec.digest()
	if r, err := s.read(spec.Name); err == nil && r.Alive() && r.Digest == digest && sameNamespace(r.PID, spec.NetNS) {
		return false, nil
	}
	if err := s.Stop(ctx, spec.Name, 10*time.Second); err != nil {
		return false, err
	}
	return true, s.start(spec, digest)
}

func (s *Supervisor) start(spec Spec, digest string) error {
	if err := errors.Join(os.MkdirAll(s.Records, 0o755), os.MkdirAll(s.Logs, 0o755)); err != nil {
		return fmt.Errorf("create the directories of %s: %w", spec.Name, err)
	}
	log, err := openLog(s.LogFile(spec.Name))
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", spec.Name, err)
	}
	defer func() { _ = log.Close() }() // the daemon has its own file descriptor
	path, args := spec.Path, spec.Args
	if spec.NetNS != "" {
		// Not `ip netns exec`: it mounts a new /sys without the cgroups.
		path, args = "nsenter", append([]string{"--net=" + spec.NetNS, "--", spec.Path}, spec.Args...)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), spec.Env...)
	cmd.Env = append(cmd.Env, ownerVariable+"="+s.Owner, nameVariable+"="+spec.Name)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", spec.Name, err)
	}
	go func() { _ = cmd.Wait() }() // reaps the daemon if it exits while this command runs
	id, err := Identify(cmd.Process.Pid)
	if err != nil {
		return fmt.Errorf("start %s: the process exited immediately, see %s", spec.Name, s.LogFile(spec.Name))
	}
	data, err := json.Marshal(record{Identity: id, Digest: digest})
	if err != nil {
		return fmt.Errorf("encode the record of %s: %w", spec.Name, err)
	}
	if err := os.WriteFile(s.recordFile(spec.Name), data, 0o644); err != nil {
		return fmt.Errorf("write the record of %s: %w", spec.Name, err)
	}
	return nil
}

// Stop stops the daemon name with SIGTERM, and with SIGKILL after grace, and removes its record. Stopping a daemon that is not
// running is no error.
func (s *Supervisor) Stop(ctx context.Context, name string, grace time.Duration) error {
	var found []Identity
	if r, err := s.read(name); err == nil && r.Alive() {
		found = append(found, r.Identity)
	}
	owned, err := s.Owned()
	if err != nil {
		return err
	}
	for _, p := range owned {
		// Only the daemon itself: containers keep running while containerd restarts.
		if p.Name == name && p.Leader && !slices.Contains(found, p.Identity) {
			found = append(found, p.Identity)
		}
	}
	if err := Kill(ctx, found, grace); err != nil {
		return fmt.Errorf("stop %s: %w", name, err)
	}
	if err := os.Remove(s.recordFile(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the record of %s: %w", name, err)
	}
	return nil
}

// State is the state of a daemon.
type State struct {
	Running bool
	PID     int
	Since   time.Time
	Log     string
}

// State returns the state of the daemon name.
func (s *Supervisor) State(name string) State {
	state := State{Log: s.LogFile(name)}
	if r, err := s.read(name); err == nil {
		state.PID, state.Running = r.PID, r.Alive()
		if info, err := os.Stat(s.recordFile(name)); err == nil {
			state.Since = info.ModTime()
		}
	}
	return state
}

// Names lists the daemons with a record, including stopped ones.
func (s *Supervisor) Names() ([]string, error) {
	files, err := filepath.Glob(s.recordFile("*"))
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".json")
	}
	return files, err
}

// LogFile returns the path of the daemon's log.
func (s *Supervisor) LogFile(name string) string { return filepath.Join(s.Logs, name+".log") }

func (s *Supervisor) recordFile(name string) string { return filepath.Join(s.Records, name+".json") }

func (s *Supervisor) read(name string) (record, error) {
	var r record
	data, err := os.ReadFile(s.recordFile(name))
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(data, &r)
}

func (spec Spec) digest() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %q", spec.Path, spec.Args, spec.Env, spec.NetNS, spec.Version))
	return hex.EncodeToString(sum[:])[:16]
}

// sameNamespace reports whether the process runs in the network namespace of the file. A re-created namespace is another one.
func sameNamespace(pid int, file string) bool {
	if file == "" {
		return true
	}
	var want, have unix.Stat_t
	if unix.Stat(file, &want) != nil || unix.Stat(fmt.Sprintf("/proc/%d/ns/net", pid), &have) != nil {
		return false
	}
	return want.Ino == have.Ino && want.Dev == have.Dev
}

func openLog(file string) (*os.File, error) {
	if info, err := os.Stat(file); err == nil && info.Size() > maxLogSize {
		if err := os.Rename(file, file+".old"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}
