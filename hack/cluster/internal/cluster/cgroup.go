package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fettle-dev/fettle/hack/cluster/internal/kube"
	"github.com/fettle-dev/fettle/hack/cluster/internal/process"
)

const cgroupRoot = "/sys/fs/cgroup"

// hierarchies lists the roots of the cgroup hierarchies: one with cgroup v2, one per mounted controller with cgroup v1.
func hierarchies(root string) []string {
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		return []string{root}
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil
	}
	var dirs []string
	for _, e := range entries {
		// Symbolic links such as cpu -> cpu,cpuacct point to a directory that is also in the list.
		if e.IsDir() && e.Name() != "unified" {
			dirs = append(dirs, filepath.Join(root, e.Name()))
		}
	}
	return dirs
}

// makeCgroup creates a cgroup in all hierarchies and enables limits for its children.
func makeCgroup(path string) error {
	for _, root := range hierarchies(cgroupRoot) {
		at := root
		for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
			parent := at
			at = filepath.Join(at, part)
			if err := os.Mkdir(at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("create the cgroup %s: %w", at, err)
			}
			if err := inheritCgroup(parent, at); err != nil {
				return fmt.Errorf("set up the cgroup %s: %w", at, err)
			}
		}
	}
	return nil
}

// inheritCgroup copies the settings that a new cgroup does not inherit: cpuset.cpus and cpuset.mems in cgroup v1, the
// controllers in cgroup v2.
func inheritCgroup(parent, child string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(parent, name))
		if err != nil {
			continue // not the cpuset hierarchy, or the root of cgroup v2
		}
		have, err := os.ReadFile(filepath.Join(child, name))
		if err != nil || len(bytes.TrimSpace(have)) > 0 {
			continue
		}
		if err := os.WriteFile(filepath.Join(child, name), value, 0o644); err != nil {
			return err
		}
	}
	controllers, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // cgroup v1
	}
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(controllers)) {
		// The kubelet reports a missing controller that it needs, so errors are ignored here.
		_ = os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+"+name), 0o644)
	}
	return nil
}

// cgroupDirs finds the cluster's cgroups, children before parents.
func (c Config) cgroupDirs() []string {
	var dirs []string
	for _, root := range append(hierarchies(cgroupRoot), filepath.Join(cgroupRoot, "unified")) {
		_ = filepath.WalkDir(filepath.Join(root, c.Name), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				dirs = append(dirs, path)
			}
			return nil // a directory that vanished is already removed
		})
	}
	slices.Reverse(dirs)
	return dirs
}

// containerProcesses lists the processes of all containers.
func (c Config) containerProcesses() []process.Identity {
	var found []process.Identity
	for _, dir := range c.cgroupDirs() {
		data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			continue
		}
		for field := range strings.FieldsSeq(string(data)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				continue
			}
			if id, err := process.Identify(pid); err == nil && !slices.Contains(found, id) {
				found = append(found, id)
			}
		}
	}
	return found
}

// removeCgroups removes the cluster's cgroups, which must have no processes. It retries, because the kernel needs a moment
// after the last process exited.
func (c Config) removeCgroups(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return kube.Poll(ctx, 100*time.Millisecond, func(context.Context) (bool, error) {
		var err error
		for _, dir := range c.cgroupDirs() {
			if e := os.Remove(dir); e != nil && !errors.Is(e, fs.ErrNotExist) {
				err = fmt.Errorf("remove the cgroup: %w", e)
			}
		}
		return err == nil, err
	})
}
