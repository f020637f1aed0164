package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fettle-dev/fettle/hack/cluster/internal/network"
	"github.com/fettle-dev/fettle/hack/cluster/internal/process"
)

// Down removes the cluster's processes, mounts, network, cgroups and files, also after a reboot. It keeps the cache.
func (c Config) Down(ctx context.Context, out io.Writer) error {
	l, err := c.acquire()
	if err != nil {
		return err
	}
	defer l.release(true)
	if found, err := c.exists(); err != nil || !found {
		_, printErr := fmt.Fprintln(out, "No cluster found in", c.State)
		return errors.Join(err, printErr)
	}
	p := &progress{out: out, start: time.Now()}
	for _, step := range []struct {
		name string
		do   func(context.Context, reporter) (string, error)
	}{
		{"processes", c.stopAll},
		{"mounts", func(context.Context, reporter) (string, error) { return c.unmountAll() }},
		{"network", c.removeNetwork},
		{"cgroups", func(ctx context.Context, _ reporter) (string, error) { return "removed", c.removeCgroups(ctx) }},
		{"kernel", func(context.Context, reporter) (string, error) {
			return "settings restored", restoreSysctls(c.Path("sysctls.json"), sysctlRoot)
		}},
		{"files", func(context.Context, reporter) (string, error) { return c.removeFiles() }},
	} {
		if err := p.step(ctx, step.name, step.do); err != nil {
			return err
		}
	}
	return nil
}

// exists reports whether any part of the cluster exists. If not, Down changes nothing, because the iptables rules of
// kube-proxy could belong to another Kubernetes.
func (c Config) exists() (bool, error) {
	for _, dir := range []string{c.State, c.Run} {
		if _, err := os.Stat(dir); err == nil {
			return true, nil
		}
	}
	owned, err := c.supervisor().Owned()
	return len(owned) > 0, err
}

// stopAll stops all processes of the cluster, kubelets first, because a kubelet would restart containers.
func (c Config) stopAll(ctx context.Context, report reporter) (string, error) {
	count, err := c.stopNodes(ctx, report)
	if err != nil {
		return "", err
	}
	s := c.supervisor()
	owned, err := s.Owned()
	if err != nil {
		return "", err
	}
	report("the control plane to exit")
	names, err := s.Names()
	if err != nil {
		return "", err
	}
	// etcd is stopped last: the other daemons block for long without it.
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(b, a) })
	slices.SortStableFunc(names, func(a, b string) int { return boolOrder(a == "etcd") - boolOrder(b == "etcd") })
	for _, name := range names {
		if err := s.Stop(ctx, name, 3*time.Second); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d stopped", count+len(owned)), process.Kill(ctx, identities(owned), time.Second)
}

// stopNodes stops kubelets, containers and containerds.
func (c Config) stopNodes(ctx context.Context, report reporter) (int, error) {
	s := c.supervisor()
	owned, err := s.Owned()
	if err != nil {
		return 0, err
	}
	var kubelets, rest []process.Identity
	for _, p := range owned {
		switch {
		case strings.HasPrefix(p.Name, "kubelet-"):
			kubelets = append(kubelets, p.Identity)
		case strings.HasPrefix(p.Name, "containerd-"), strings.HasPrefix(p.Name, "kube-proxy-"), p.Name == "storage":
			rest = append(rest, p.Identity)
		}
	}
	report("kubelets to exit")
	if err := process.Kill(ctx, kubelets, 3*time.Second); err != nil {
		return 0, err
	}
	report("containers to exit")
	containers := c.containerProcesses()
	if err := process.Kill(ctx, containers, 0); err != nil {
		return 0, err
	}
	report("containerd to exit")
	return len(kubelets) + len(rest) + len(containers), process.Kill(ctx, rest, 3*time.Second)
}

func identities(owned []process.Owned) []process.Identity {
	ids := make([]process.Identity, len(owned))
	for i, p := range owned {
		ids[i] = p.Identity
	}
	return ids
}

func boolOrder(b bool) int {
	if b {
		return 1
	}
	return 0
}

// unmountAll unmounts everything below the cluster's directories, innermost first.
func (c Config) unmountAll() (string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("list mounts: %w", err)
	}
	points := mountPoints(string(data), c.State, c.Run)
	for _, point := range points {
		if err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return "", fmt.Errorf("unmount %s: %w", point, err)
		}
	}
	return fmt.Sprintf("%d unmounted", len(points)), nil
}

// mountPoints returns the mount points of a mountinfo file that are below the directories, last mounted first.
func mountPoints(mountinfo string, below ...string) []string {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var points []string
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		point := unescape.Replace(fields[4])
		for _, dir := range below {
			if strings.HasPrefix(point, dir+"/") {
				points = append(points, point)
			}
		}
	}
	slices.Reverse(points)
	return points
}

func (c Config) removeNetwork(ctx context.Context, _ reporter) (string, error) {
	all, err := newNodes(network.MaxNodes)
	if err != nil {
		return "", err
	}
	files, err := filepath.Glob(filepath.Join(c.Run, "netns", "*"))
	if err != nil {
		return "", err
	}
	err = network.Remove(ctx, c.State, all, files)
	if errors.Is(err, network.ErrOtherCluster) {
		return "kept: it belongs to another cluster", nil
	}
	return "removed", err
}

// resetCluster removes everything that depends on etcd's data: the nodes' pods and the volumes.
func (u *upRun) resetCluster(ctx context.Context) error {
	if _, err := u.stopNodes(ctx, func(string, ...any) {}); err != nil {
		return err
	}
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"} {
		if err := u.super.Stop(ctx, name, 3*time.Second); err != nil {
			return err
		}
	}
	if _, err := u.unmountAll(); err != nil {
		return err
	}
	for _, dir := range []string{u.Path("etcd"), u.Path("nodes"), u.Path("volumes")} {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("reset the cluster: %w", err)
		}
	}
	if err := u.setNodeCount(len(u.nodes)); err != nil {
		return err
	}
	_, err := u.setUpNetwork(ctx, nil) // unmountAll also unmounted the network namespaces
	return err
}
