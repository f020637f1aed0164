package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// sysctls are the kernel settings that the cluster changes; kubelet sets those without a value. down puts all of them
// back as they were.
var sysctls = map[string]int{
	"net/ipv4/ip_forward":           1,
	"fs/inotify/max_user_instances": 1024, // each container and each kubelet takes some
	"fs/inotify/max_user_watches":   65536,
	"vm/overcommit_memory":          -1,
	"vm/panic_on_oom":               -1,
	"kernel/panic":                  -1,
	"kernel/panic_on_oops":          -1,
	"kernel/keys/root_maxkeys":      -1,
	"kernel/keys/root_maxbytes":     -1,
}

const sysctlRoot = "/proc/sys"

// saveSysctls writes down the settings as they are before the first start. A later call changes nothing, unless the
// machine was booted since, for then they are fresh again.
func saveSysctls(file, root string) error {
	boot, err := os.ReadFile(filepath.Join(root, "kernel/random/boot_id"))
	if err != nil {
		return fmt.Errorf("read the id of this boot: %w", err)
	}
	saved, err := readSysctls(file)
	if err == nil && saved["boot"] == string(boot) {
		return nil
	}
	saved = map[string]string{"boot": string(boot)}
	for name := range sysctls {
		if value, err := os.ReadFile(filepath.Join(root, name)); err == nil {
			saved[name] = string(value)
		}
	}
	data, err := json.Marshal(saved)
	if err != nil {
		return fmt.Errorf("encode the kernel's settings: %w", err)
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		return fmt.Errorf("save the kernel's settings: %w", err)
	}
	return nil
}

// setSysctls raises the settings that are too low.
func setSysctls(root string) error {
	for name, want := range sysctls {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			continue // this kernel has no such setting
		}
		have, err := strconv.Atoi(strings.TrimSpace(string(data)))
		if err != nil || have >= want {
			continue
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(strconv.Itoa(want)), 0o644); err != nil {
			return fmt.Errorf("set the kernel's %s to %d: %w", name, want, err)
		}
	}
	return nil
}

// restoreSysctls puts the settings back as saveSysctls found them. After a reboot there is nothing to put back.
func restoreSysctls(file, root string) error {
	saved, err := readSysctls(file)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	boot, err := os.ReadFile(filepath.Join(root, "kernel/random/boot_id"))
	if err != nil {
		return fmt.Errorf("read the id of this boot: %w", err)
	}
	if string(boot) != saved["boot"] {
		return nil
	}
	for name := range sysctls {
		value, ok := saved[name]
		if !ok {
			continue
		}
		if now, err := os.ReadFile(filepath.Join(root, name)); err == nil && string(now) == value {
			continue
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(value), 0o644); err != nil {
			return fmt.Errorf("put the kernel's %s back: %w", name, err)
		}
	}
	return nil
}

func readSysctls(file string) (map[string]string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	saved := map[string]string{}
	if err := json.Unmarshal(data, &saved); err != nil {
		return nil, fmt.Errorf("read the saved settings of the kernel in %s: %w", file, err)
	}
	return saved, nil
}
