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

// requirement is a program that the cluster needs, and its Debian package.
type requirement struct {
	program, packageName string
}

var requirements = []requirement{
	{"containerd", "containerd"},
	{"runc", "runc"},
	{"docker-registry", "docker-registry"},
	{"iptables", "iptables"},
	{"conntrack", "conntrack"},
	{"socat", "socat"},
	{"ip", "iproute2"},
	{"nsenter", "util-linux"},
	{"mount", "mount"},
	{"modprobe", "kmod"},
}

// cniDirs are the directories of the CNI plugins in several distributions.
var cniDirs = []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}

// RequireRoot returns an error with the sudo command if the user is not root.
func RequireRoot(command string) error {
	if os.Geteuid() == 0 {
		return nil
	}
	return fmt.Errorf("the local cluster needs root for network namespaces, mounts and iptables. Run:\n\n  sudo -E env PATH=\"$PATH\" make %s", command)
}

// cniDir returns the directory of the CNI plugins.
func cniDir() (string, bool) {
	for _, dir := range cniDirs {
		if _, err := os.Stat(filepath.Join(dir, "ptp")); err == nil {
			return dir, true
		}
	}
	return "", false
}

// missingPackages lists the Debian packages whose programs are not installed.
func missingPackages() []string {
	var missing []string
	for _, r := range requirements {
		if _, err := exec.LookPath(r.program); err != nil && !slices.Contains(missing, r.packageName) {
			missing = append(missing, r.packageName)
		}
	}
	if _, ok := cniDir(); !ok {
		missing = append(missing, "containernetworking-plugins")
	}
	return missing
}

// installPackages installs missing packages with apt-get.
func installPackages(ctx context.Context, log string) (string, error) {
	missing := missingPackages()
	if len(missing) == 0 {
		return "all installed", nil
	}
	const apt = "apt-get -o Acquire::Retries=5 -o DPkg::Lock::Timeout=300 "
	install := "apt-get install -y --no-install-recommends " + strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return "", fmt.Errorf("these packages are not installed: %s. apt-get is missing too (on Debian: %s). Install them with your package manager and try again",
			strings.Join(missing, ", "), install)
	}
	retry := apt + strings.TrimPrefix(install, "apt-get ")
	script := retry + " && exit; for pause in 0 5 15 45; do sleep $pause; " + apt + "update && " + retry + " && exit; done; exit 1"
	if err := runLogged(ctx, log, []string{"DEBIAN_FRONTEND=noninteractive"}, "sh", "-c", script); err != nil {
		return "", fmt.Errorf("apt-get failed to install %s (see %s). Run\n\n  apt-get update && %s\n\nand try again: %w",
			strings.Join(missing, ", "), log, install, err)
	}
	if err := stopServices(ctx, log, missing); err != nil {
		return "", err
	}
	if missing := missingPackages(); len(missing) > 0 {
		return "", fmt.Errorf("still missing after %q: %s", install, strings.Join(missing, ", "))
	}
	return "installed " + strings.Join(missing, ", "), nil
}

// stopServices stops the services that the installed packages start. The cluster runs these programs itself.
func stopServices(ctx context.Context, log string, installed []string) error {
	for _, service := range []string{"containerd", "docker-registry"} {
		if !slices.Contains(installed, service) {
			continue
		}
		script := "! [ -e /etc/init.d/" + service + " ] || service " + service + " stop || true" // it fails for a stopped service
		if _, err := os.Stat("/run/systemd/system"); err == nil {
			script = "systemctl disable --now " + service
		}
		if err := runLogged(ctx, log, nil, "sh", "-c", script); err != nil {
			return fmt.Errorf("stop the package's service %s: %w", service, err)
		}
	}
	return nil
}

// runLogged runs a command and appends its output to a log.
func runLogged(ctx context.Context, log string, env []string, name string, args ...string) error {
	return runReporting(ctx, log, env, func(string, ...any) {}, name, args...)
}

// runReporting runs a command, appends its output to a log and reports each line.
func runReporting(ctx context.Context, log string, env []string, report reporter, name string, args ...string) error {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open a log: %w", err)
	}
	defer func() { _ = file.Close() }()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	out := io.MultiWriter(file, lineReporter{report})
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w; last lines of its output:\n%s", name, err, tail(log))
	}
	return nil
}

// tail returns the last lines of a log, indented.
func tail(log string) string {
	data, err := os.ReadFile(log)
	if err != nil {
		return "  (" + err.Error() + ")"
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return "  " + strings.Join(lines[max(0, len(lines)-8):], "\n  ")
}

// prepareKernel raises the limit of open files for all daemons and loads the kernel modules of containers and kube-proxy.
// modprobe fails for built-in modules, so errors are ignored: a missing feature causes a specific error later.
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
		err := runLogged(ctx, log, nil, "modprobe", "-q", module)
		if errors.Is(err, exec.ErrNotFound) {
			return nil
		}
	}
	return nil
}
