package cluster

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
)

func TestLoad(t *testing.T) {
	t.Setenv("FETTLE_CLUSTER", "/srv/second")
	t.Setenv("FETTLE_CACHE", "/srv/cache")
	c, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Config{State: "/srv/second", Run: "/run/second", Cache: "/srv/cache", Name: "second"}, c); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"/", "/srv/My Cluster", "/srv/" + strings.Repeat("a", 41)} {
		t.Setenv("FETTLE_CLUSTER", bad)
		if c, err := Load(); err == nil {
			t.Errorf("%q: got %+v", bad, c)
		}
	}
}

func TestLock_exclusive(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	first, err := acquire(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := acquire(file); err == nil || !strings.Contains(err.Error(), "another up or down") {
		t.Errorf("second acquire: %v", err)
	}
	first.release(true)
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Error("release did not remove the lock file")
	}
	second, err := acquire(file)
	if err != nil {
		t.Fatal(err)
	}
	second.release(false)
}

func TestMountPoints(t *testing.T) {
	mountinfo := `22 1 254:0 / / rw - ext4 /dev/vda rw
30 22 0:30 / /run/c/netns/n1 rw - nsfs nsfs rw
31 22 0:31 / /var/lib/c/nodes/n1/a\040b rw - tmpfs tmpfs rw
32 31 0:32 / /var/lib/c/nodes/n1/a\040b/inner rw - tmpfs tmpfs rw
33 22 0:33 / /var/lib/c-other rw - tmpfs tmpfs rw
`
	want := []string{"/var/lib/c/nodes/n1/a b/inner", "/var/lib/c/nodes/n1/a b", "/run/c/netns/n1"}
	if diff := cmp.Diff(want, mountPoints(mountinfo, "/var/lib/c", "/run/c")); diff != "" {
		t.Error(diff)
	}
}

// fakeProcSys creates a directory with the structure of /proc/sys.
func fakeProcSys(t *testing.T, settings map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for setting, value := range settings {
		file := filepath.Join(root, setting)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(value), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestSysctls(t *testing.T) {
	root := fakeProcSys(t, map[string]string{
		"kernel/random/boot_id": "one\n", "net/ipv4/ip_forward": "0\n", "fs/inotify/max_user_instances": "4096\n", "kernel/panic": "0\n",
	})
	file := filepath.Join(t.TempDir(), "sysctls.json")
	if err := errors.Join(saveSysctls(file, root), setSysctls(root), saveSysctls(file, root)); err != nil {
		t.Fatal(err)
	}
	value := func(setting string) string {
		data, err := os.ReadFile(filepath.Join(root, setting))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(data))
	}
	if value("net/ipv4/ip_forward") != "1" || value("fs/inotify/max_user_instances") != "4096" {
		t.Errorf("ip_forward is %s, max_user_instances %s", value("net/ipv4/ip_forward"), value("fs/inotify/max_user_instances"))
	}
	if err := os.WriteFile(filepath.Join(root, "kernel/panic"), []byte("10\n"), 0o644); err != nil { // as kubelet does
		t.Fatal(err)
	}
	if err := restoreSysctls(file, root); err != nil {
		t.Fatal(err)
	}
	if value("net/ipv4/ip_forward") != "0" || value("kernel/panic") != "0" {
		t.Errorf("not restored: ip_forward is %s, panic %s", value("net/ipv4/ip_forward"), value("kernel/panic"))
	}
}

func TestRestoreSysctls_afterReboot(t *testing.T) {
	root := fakeProcSys(t, map[string]string{"kernel/random/boot_id": "one", "kernel/panic": "5"})
	file := filepath.Join(t.TempDir(), "sysctls.json")
	if err := saveSysctls(file, root); err != nil {
		t.Fatal(err)
	}
	rebooted := fakeProcSys(t, map[string]string{"kernel/random/boot_id": "two", "kernel/panic": "0"})
	if err := restoreSysctls(file, rebooted); err != nil {
		t.Fatal(err)
	}
	if data, _ := os.ReadFile(filepath.Join(rebooted, "kernel/panic")); string(data) != "0" {
		t.Errorf("a setting of the previous boot was restored: %s", data)
	}
}

func TestInheritCgroup(t *testing.T) {
	parent := fakeProcSys(t, map[string]string{"cpuset.cpus": "0-1\n", "n1/cpuset.cpus": "\n", "n2/cpuset.cpus": "1\n"})
	for child, want := range map[string]string{"n1": "0-1\n", "n2": "1\n"} {
		if err := inheritCgroup(parent, filepath.Join(parent, child)); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(filepath.Join(parent, child, "cpuset.cpus")); string(got) != want {
			t.Errorf("cpuset.cpus of %s is %q, want %q", child, got, want)
		}
	}
}

func TestHierarchies(t *testing.T) {
	one := fakeProcSys(t, map[string]string{"cpu/tasks": "", "memory/tasks": "", "unified/cgroup.procs": ""})
	if diff := cmp.Diff([]string{one + "/cpu", one + "/memory"}, hierarchies(one)); diff != "" {
		t.Error("cgroup v1:", diff)
	}
	two := fakeProcSys(t, map[string]string{"cgroup.controllers": "cpu memory", "system.slice/cgroup.procs": ""})
	if diff := cmp.Diff([]string{two}, hierarchies(two)); diff != "" {
		t.Error("cgroup v2:", diff)
	}
}

func TestMirrored(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0", 64)
	for image, want := range map[string]string{
		"nginx":                               registryAddr + "/library/nginx:latest",
		"ghcr.io/fettle-dev/fettle:v0.0.1":    registryAddr + "/fettle-dev/fettle:v0.0.1",
		"registry.k8s.io/pause@" + digest:     registryAddr + "/pause@" + digest,
		"quay.io/operator-framework/opm:v1.2": registryAddr + "/operator-framework/opm:v1.2",
	} {
		ref, err := name.ParseReference(image)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := mirrored(ref); err != nil || got.String() != want {
			t.Errorf("%s: got %v, %v, want %s", image, got, err, want)
		}
	}
}

func TestInstall(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
		return file
	}
	path, first, err := install(write("new", "one"), filepath.Join(dir, "program"))
	if err != nil {
		t.Fatal(err)
	}
	_, same, err := install(write("new", "one"), path)
	if err != nil || same != first {
		t.Errorf("the same program: %s, %v, want %s", same, err, first)
	}
	_, other, err := install(write("new", "two"), path)
	if err != nil || other == first {
		t.Errorf("a changed program has the same digest: %s, %v", other, err)
	}
	if data, _ := os.ReadFile(path); string(data) != "two" {
		t.Errorf("installed: %s", data)
	}
}

func TestStep_printsResult(t *testing.T) {
	var out bytes.Buffer
	p := &progress{out: &out, start: time.Now()}
	err := p.step(t.Context(), "etcd", func(context.Context, reporter) (string, error) { return "started", nil })
	if err != nil || !strings.Contains(out.String(), "etcd") || !strings.Contains(out.String(), "started") {
		t.Errorf("%v: %s", err, out.String())
	}
	reason := errors.New("no disk")
	err = p.step(t.Context(), "etcd", func(context.Context, reporter) (string, error) { return "", reason })
	if !errors.Is(err, reason) || !strings.HasPrefix(err.Error(), "etcd: ") {
		t.Errorf("got %v", err)
	}
}
