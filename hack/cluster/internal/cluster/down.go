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

// Down removes the cluster: processes, mounts, network, cgroups and files, whether they were made by this boot or not.
// The cache stays.
func (c Config) Down(ctx context.Context, out io.Writer) error {
	l, err := c.acquire()
	if err != nil {
		return err
	}
	defer l.release(true)
	if there, err := c.exists(); err != nil || !there {
		_, printErr := fmt.Fprintln(out, "There is no cluster in", c.State)
		return errors.Join(err, printErr)
	}
	p := &progress{out: out, start: time.Now()}
	for _, step := range []struct {
		name string
		do   func(context.Context, note) (string, error)
	}{
		{"processes", c.stopAll},
		{"mounts", func(context.Context, note) (string, error) { return c.unmountAll() }},
		{"network", c.removeNetwork},
		{"cgroups", func(ctx context.Context, _ note) (string, error) { return "removed", c.removeCgroups(ctx) }},
		{"kernel", func(context.Context, note) (string, error) {
			return "settings as before", restoreSysctls(c.Path("sysctls.json"), sysctlRoot)
		}},
		{"files", func(context.Context, note) (string, error) { return c.removeFiles() }},
	} {
		if err := p.step(ctx, step.name, step.do); err != nil {
			return err
		}
	}
	return nil
}

// exists says whether anything of the cluster is there. If not, down touches nothing: what it would take for kube-proxy's
// rules could be those of another Kubernetes.
func (c Config) exists() (bool, error) {
	for _, dir := range []string{c.State, c.Run} {
		if _, err := os.Stat(dir); err == nil {
			return true, nil
		}
	}
	owned, err := c.supervisor().Owned()
	return len(owned) > 0, err
}

// stopAll ends all processes of the cluster. Kubelets go first, so that none starts a container again.
func (c Config) stopAll(ctx context.Context, say note) (string, error) {
	count, err := c.stopNodes(ctx, say)
	if err != nil {
		return "", err
	}
	s := c.supervisor()
	owned, err := s.Owned()
	if err != nil {
		return "", err
	}
	say("the control plane to end")
	names, err := s.Names()
	if err != nil {
		return "", err
	}
	// etcd last: the others complain about it for long.
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(b, a) })
	slices.SortStableFunc(names, func(a, b string) int { return boolOrder(a == "etcd") - boolOrder(b == "etcd") })
	for _, name := range names {
		if err := s.Stop(ctx, name, 3*time.Second); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d ended", count+len(owned)), process.Kill(ctx, identities(owned), time.Second)
}

// stopNodes ends kubelets, containers and containerds.
func (c Config) stopNodes(ctx context.Context, say note) (int, error) {
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
	say("kubelets to end")
	if err := process.Kill(ctx, kubelets, 3*time.Second); err != nil {
		return 0, err
	}
	say("containers to end")
	contained := c.contained()
	if err := process.Kill(ctx, contained, 0); err != nil {
		return 0, err
	}
	say("containerd to end")
	return len(kubelets) + len(rest) + len(contained), process.Kill(ctx, rest, 3*time.Second)
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

// unmountAll unmounts what is mounted below the cluster's folders, the innermost first, except network namespaces.
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

// mountPoints takes from a mountinfo the mount points below the folders, the last mounted first.
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

func (c Config) removeNetwork(ctx context.Context, _ note) (string, error) {
	all, err := places(network.MaxNodes)
	if err != nil {
		return "", err
	}
	files, err := filepath.Glob(filepath.Join(c.Run, "netns", "*"))
	if err != nil {
		return "", err
	}
	err = network.Remove(ctx, c.State, all, files)
	if errors.Is(err, network.ErrForeign) {
		return "another cluster's, left alone", nil
	}
	return "removed", err
}

// startAnew removes what depends on etcd's data and can't be used without them: the nodes' pods and the volumes.
func (u *upRun) startAnew(ctx context.Context) error {
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
			return fmt.Errorf("start anew: %w", err)
		}
	}
	if err := u.setNodes(len(u.nodes)); err != nil {
		return err
	}
	_, err := u.layNetwork(ctx, nil) // the namespaces were unmounted too
	return err
}
