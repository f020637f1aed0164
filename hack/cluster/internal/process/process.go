// Package process runs the local cluster's daemons: started once, found again by a later command, never confused with
// another process that got the same number.
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

// ownerVariable is in the environment of every daemon, and of what it starts (containerd's shims, for one): by it a
// process is known to belong to the cluster even when its record was lost.
const (
	ownerVariable = "FETTLE_CLUSTER_OWNER"
	nameVariable  = "FETTLE_CLUSTER_PROCESS"
)

// maxLog is the size at which a log is put aside when its process starts.
const maxLog = 64 << 20

// Spec is a daemon to run.
type Spec struct {
	Name string // of its record and of its log
	Path string
	Args []string
	Env  []string // KEY=value, added to the environment
	// NetNS is the file of the network namespace that it runs in; empty for the host's.
	NetNS string
	// Version is anything whose change must restart the daemon, such as a digest of its configuration files.
	Version string
}

// record is what is stored about a running daemon.
type record struct {
	Identity
	Digest string `json:"digest"`
}

// Supervisor starts and stops daemons. Its folders hold a record (NAME.json) and a log (NAME.log) for each of them.
type Supervisor struct {
	Owner   string // the cluster's state folder: two clusters on one machine leave each other alone
	Records string
	Logs    string
}

// Ensure starts the daemon of spec unless it runs already. One that runs with other arguments, another Version or in
// another network namespace is restarted. The result says whether it was started.
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
		return fmt.Errorf("make the folders of %s: %w", spec.Name, err)
	}
	log, err := openLog(s.LogFile(spec.Name))
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", spec.Name, err)
	}
	defer func() { _ = log.Close() }() // the daemon has a descriptor of its own
	path, args := spec.Path, spec.Args
	if spec.NetNS != "" {
		// Not `ip netns exec`: it gives the daemon a new /sys, in which the cgroups are missing.
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
	go func() { _ = cmd.Wait() }() // reaps it if it ends while this command still runs; how it ended is in its log
	id, err := Identify(cmd.Process.Pid)
	if err != nil {
		return fmt.Errorf("start %s: it ended at once, see %s", spec.Name, s.LogFile(spec.Name))
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

// Stop ends the daemon name, by SIGTERM and after grace by SIGKILL, and forgets it. It is no error if it does not run.
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
		// Not what it started itself: containers outlive a restart of containerd.
		if p.Name == name && p.Leader && !slices.Contains(found, p.Identity) {
			found = append(found, p.Identity)
		}
	}
	if err := Kill(ctx, found, grace); err != nil {
		return fmt.Errorf("stop %s: %w", name, err)
	}
	if err := os.Remove(s.recordFile(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget %s: %w", name, err)
	}
	return nil
}

// State is what is known about a daemon.
type State struct {
	Name    string
	Running bool
	PID     int
	Since   time.Time
	Log     string
}

// State tells how the daemon name is.
func (s *Supervisor) State(name string) State {
	state := State{Name: name, Log: s.LogFile(name)}
	if r, err := s.read(name); err == nil {
		state.PID, state.Running = r.PID, r.Alive()
		if info, err := os.Stat(s.recordFile(name)); err == nil {
			state.Since = info.ModTime()
		}
	}
	return state
}

// Names lists the daemons that have a record, running or not.
func (s *Supervisor) Names() ([]string, error) {
	files, err := filepath.Glob(s.recordFile("*"))
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".json")
	}
	return files, err
}

// LogFile is the path of the daemon's log.
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

// sameNamespace says whether the process is in the network namespace whose file is given. The file may have been made
// anew while the process stayed in the old one.
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
	if info, err := os.Stat(file); err == nil && info.Size() > maxLog {
		if err := os.Rename(file, file+".old"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}
