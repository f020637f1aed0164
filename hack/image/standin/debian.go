package standin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/fettle-dev/fettle/hack/image/layer"
)

// installScript is run by runIsolated, so its mounts and processes are removed when it exits.
const installScript = `set -eu
lower=$1 upper=$2 scratch=$3 root=$4 before=$5 after=$6
shift 6
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$upper,workdir=$scratch" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
export DEBIAN_FRONTEND=noninteractive LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
chroot "$root" /bin/sh -euc "$before"
chroot "$root" apt-get -q -o Acquire::Retries=5 -o Acquire::Check-Valid-Until=false update
chroot "$root" apt-get -q -o Acquire::Retries=5 -y --no-install-recommends -o APT::Sandbox::User=root install "$@"
chroot "$root" /bin/sh -euc "$after"
rm -rf "$root/var/lib/apt/lists" "$root/var/cache/apt"
mkdir -p "$root/var/lib/apt/lists/partial" "$root/var/cache/apt/archives/partial"
`

// runIsolated runs a shell script in new mount and PID namespaces. The kernel kills the script when this process exits, and removes its
// mounts and processes when the script exits.
func (b *Builder) runIsolated(ctx context.Context, script string, args ...string) error {
	if os.Geteuid() != 0 {
		return errors.New("building Debian images needs root (chroot and mounts): run the command with sudo")
	}
	command := exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", script, "sh"}, args...)...)
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
	}
	runtime.LockOSThread() // Pdeathsig is sent when the thread that started the script exits
	defer runtime.UnlockOSThread()
	return b.run(command)
}

// debootstrap creates the root filesystem of a Debian release from the host's apt mirror.
func (b *Builder) debootstrap(ctx context.Context, r *Recipe) (layer.Set, error) {
	if err := b.ensureProgram(ctx, "debootstrap", "debootstrap"); err != nil {
		return nil, err
	}
	root := filepath.Join(b.workDir, "root-"+r.Name)
	if err := os.RemoveAll(root); err != nil { // from an earlier attempt
		return nil, err
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, err
	}
	args := []string{r.Suite, root}
	if mirror := b.mirror(ctx); mirror != "" {
		args = append(args, mirror)
		if _, err := os.Stat("/usr/share/debootstrap/scripts/" + r.Suite); err != nil {
			args = append(args, "sid") // use the script of sid for a release that the host's debootstrap does not know
		}
	}
	if err := b.runIsolated(ctx, "mount -t proc proc /proc\nexec debootstrap --variant=minbase \"$@\"", args...); err != nil {
		return nil, err
	}
	b.roots[r.Name] = root
	set := layer.Set{}
	return set, set.AddTree(root, "/", layer.KeepOwner, r.skip)
}

// mirror returns the Debian mirror of the host's apt. If it is empty, debootstrap uses its default.
func (b *Builder) mirror(ctx context.Context) string {
	command := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(LABEL) $(COMPONENT) $(REPO_URI)", "Identifier: Packages")
	out, err := command.Output()
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "Debian" && fields[1] == "main" {
			return fields[2]
		}
	}
	return ""
}

// ensureProgram installs a Debian package on the host if the program is missing.
func (b *Builder) ensureProgram(ctx context.Context, program, pkg string) error {
	if _, err := exec.LookPath(program); err == nil {
		return nil
	}
	b.progressf("installing %s", pkg)
	script := `export DEBIAN_FRONTEND=noninteractive
apt() { apt-get -q -y -o Acquire::Retries=5 -o DPkg::Lock::Timeout=300 --no-install-recommends "$@"; }
apt install "$1" || { apt update && apt install "$1"; }`
	if err := b.run(exec.CommandContext(ctx, "/bin/sh", "-c", script, "sh", pkg)); err != nil {
		return fmt.Errorf("%s is missing and could not be installed (try: apt-get install %s): %w", program, pkg, err)
	}
	return nil
}

// install installs packages on the recipe's base in an overlay, whose upper directory becomes the layer. The recipe's own files
// overwrite files of the packages.
func (b *Builder) install(ctx context.Context, r *Recipe, ownFiles layer.Set) (layer.Set, func(), error) {
	dir := filepath.Join(b.workDir, "install-"+r.Name)
	cleanup := func() { _ = os.RemoveAll(dir) } // Close removes the parent directory and reports errors
	lower, err := b.root(ctx, r.From)
	if err != nil {
		return nil, cleanup, err
	}
	upper, scratch, merged := filepath.Join(dir, "upper"), filepath.Join(dir, "scratch"), filepath.Join(dir, "root")
	for _, subdir := range []string{upper, scratch, merged} {
		if err := os.MkdirAll(subdir, 0o755); err != nil {
			return nil, cleanup, err
		}
	}
	args := append([]string{lower, upper, scratch, merged, r.Before, r.After}, r.Packages...)
	if err := b.runIsolated(ctx, installScript, args...); err != nil {
		return nil, cleanup, err
	}
	set := layer.Set{}
	if err := set.AddTree(upper, "/", layer.KeepOwner, r.skip); err != nil {
		return nil, cleanup, err
	}
	for _, e := range ownFiles {
		set.Add(e)
	}
	return set, cleanup, nil
}

// root returns a directory with the files of a recipe's image: its build directory, or the extracted image.
func (b *Builder) root(ctx context.Context, name string) (string, error) {
	if root, ok := b.roots[name]; ok {
		return root, nil
	}
	image, err := b.Image(ctx, name)
	if err != nil {
		return "", err
	}
	if root, ok := b.roots[name]; ok {
		return root, nil
	}
	root := filepath.Join(b.workDir, "root-"+name)
	if err := b.extract(ctx, image, root); err != nil {
		return "", fmt.Errorf("extract the base %s: %w", name, err)
	}
	b.roots[name] = root
	return root, nil
}

// Extract extracts the files of a stand-in image to a directory.
func (b *Builder) Extract(ctx context.Context, name, dir string) error {
	image, err := b.Image(ctx, name)
	if err != nil {
		return err
	}
	return b.extract(ctx, image, dir)
}

func (b *Builder) extract(ctx context.Context, image v1.Image, root string) error {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	files := mutate.Extract(image)
	command := exec.CommandContext(ctx, "tar", "-x", "--numeric-owner", "--same-owner", "-p", "-C", root)
	command.Stdin = files
	return errors.Join(b.run(command), files.Close())
}

// busybox adds Debian's static busybox and a symbolic link for each applet.
func (b *Builder) busybox(ctx context.Context, set layer.Set) error {
	dir := filepath.Join(b.workDir, "busybox")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	script := `cd "$1"
get() { apt-get -q -o Acquire::Retries=5 -o APT::Sandbox::User=root download busybox-static; }
get || { apt-get -q -o Acquire::Retries=5 -o DPkg::Lock::Timeout=300 update && get; }
dpkg-deb -x busybox-static_*.deb root`
	if err := b.run(exec.CommandContext(ctx, "/bin/sh", "-euc", script, "sh", dir)); err != nil {
		return err
	}
	binary := filepath.Join(dir, "root", "bin", "busybox")
	if _, err := os.Stat(binary); err != nil {
		binary = filepath.Join(dir, "root", "usr", "bin", "busybox")
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	list, err := exec.CommandContext(ctx, binary, "--list").Output()
	if err != nil {
		return fmt.Errorf("list the applets of busybox: %w", err)
	}
	for applet := range strings.FieldsSeq(string(list)) {
		set.Add(layer.Symlink("/bin/"+applet, "busybox"))
	}
	set.Add(layer.Text("/bin/busybox", string(content), 0o755))
	return nil
}
