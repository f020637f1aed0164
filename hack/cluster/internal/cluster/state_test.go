package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
