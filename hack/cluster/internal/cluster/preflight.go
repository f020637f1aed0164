package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// requirement is a program that the cluster needs and the Debian package that has it.
type requirement struct {
	program, packageName string
}

var requirements = []requirement{
	{"containerd", "containerd"},
	{"runc", "runc"},
	{"iptables", "iptables"},
	{"conntrack", "conntrack"},
	{"socat", "socat"},
	{"ip", "iproute2"},
	{"nsenter", "util-linux"},
	{"mount", "mount"},
	{"modprobe", "kmod"},
}

// cniFolders are where distributions put the CNI plugins.
var cniFolders = []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}

// RequireRoot says what to type when the command was started by an ordinary user.
func RequireRoot(command string) error {
	if os.Geteuid() == 0 {
		return nil
	}
	return fmt.Errorf("the local cluster needs root, for network namespaces, mounts and iptables: type\n\n  sudo -E env PATH=\"$PATH\" make %s", command)
}

// cniFolder finds the CNI plugins.
func cniFolder() (string, bool) {
	for _, dir := range cniFolders {
		if _, err := os.Stat(filepath.Join(dir, "ptp")); err == nil {
			return dir, true
		}
	}
	return "", false
}

// missingPackages lists the packages whose programs are not installed.
func missingPackages() []string {
	var missing []string
	for _, r := range requirements {
		if _, err := exec.LookPath(r.program); err != nil && !slices.Contains(missing, r.packageName) {
			missing = append(missing, r.packageName)
		}
	}
	if _, ok := cniFolder(); !ok {
		missing = append(missing, "containernetworking-plugins")
	}
	return missing
}

// installPackages installs what is missing, by apt-get.
func installPackages(ctx context.Context, log string) (string, error) {
	missing := missingPackages()
	if len(missing) == 0 {
		return "all there", nil
	}
	const apt = "apt-get -o Acquire::Retries=5 -o DPkg::Lock::Timeout=300 "
	install := "apt-get install -y --no-install-recommends " + strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return "", fmt.Errorf("these are not installed: %s. There is no apt-get to install them with (on Debian: %s); install what your system calls them, then try again",
			strings.Join(missing, ", "), install)
	}
	again := apt + strings.TrimPrefix(install, "apt-get ")
	script := again + " && exit; for pause in 0 5 15 45; do sleep $pause; " + apt + "update && " + again + " && exit; done; exit 1"
	if err := logged(ctx, log, []string{"DEBIAN_FRONTEND=noninteractive"}, "sh", "-c", script); err != nil {
		return "", fmt.Errorf("these are not installed, and apt-get could not install them: %s (see %s). Type\n\n  apt-get update && %s\n\nand then try again: %w",
			strings.Join(missing, ", "), log, install, err)
	}
	if slices.Contains(missing, "containerd") {
		// The cluster runs containerds of its own; the service that the package starts is of no use to it.
		if _, err := os.Stat("/run/systemd/system"); err == nil {
			if err := logged(ctx, log, nil, "systemctl", "disable", "--now", "containerd"); err != nil {
				return "", fmt.Errorf("stop the containerd service that the package has started: %w", err)
			}
		}
	}
	if still := missingPackages(); len(still) > 0 {
		return "", fmt.Errorf("still missing after %q: %s", install, strings.Join(still, ", "))
	}
	return "installed " + strings.Join(missing, ", "), nil
}

// logged runs a command with its output appended to a log.
func logged(ctx context.Context, log string, env []string, name string, args ...string) error {
	return noted(ctx, log, env, func(string, ...any) {}, name, args...)
}

// noted runs a command with its output appended to a log, and notes the last line of it.
func noted(ctx context.Context, log string, env []string, say note, name string, args ...string) error {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open a log: %w", err)
	}
	defer func() { _ = file.Close() }()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	out := io.MultiWriter(file, lastLine{say})
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w; the end of its output:\n%s", name, err, tail(log))
	}
	return nil
}

// tail is the end of a log, indented.
func tail(log string) string {
	data, err := os.ReadFile(log)
	if err != nil {
		return "  (" + err.Error() + ")"
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return "  " + strings.Join(lines[max(0, len(lines)-8):], "\n  ")
}

// prepareKernel raises the limit of open files for all daemons and loads what containers and kube-proxy need. Modules
// that are built in can't be loaded, so what really is missing shows later, by its own message.
func prepareKernel(ctx context.Context, log string) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	limit.Cur = limit.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("raise the limit of open files: %w", err)
	}
	for _, module := range []string{"overlay", "nf_conntrack", "veth", "bridge"} {
		err := logged(ctx, log, nil, "modprobe", "-q", module)
		if errors.Is(err, exec.ErrNotFound) {
			return nil
		}
	}
	return nil
}
