package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// sysctls are the kernel settings that the cluster changes. The kubelet changes those with the value -1. `down` restores
// all of them.
var sysctls = map[string]int{
	"net/ipv4/ip_forward":           1,
	"fs/inotify/max_user_instances": 1024, // containers and kubelets use several each
	"fs/inotify/max_user_watches":   65536,
	"vm/overcommit_memory":          -1,
	"vm/panic_on_oom":               -1,
	"kernel/panic":                  -1,
	"kernel/panic_on_oops":          -1,
	"kernel/keys/root_maxkeys":      -1,
	"kernel/keys/root_maxbytes":     -1,
}

const sysctlRoot = "/proc/sys"

// saveSysctls saves the settings before the first start. Later calls change nothing until the machine reboots, which resets
// the settings.
func saveSysctls(file, root string) error {
	boot, err := os.ReadFile(filepath.Join(root, "kernel/random/boot_id"))
	if err != nil {
		return fmt.Errorf("read the boot ID: %w", err)
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
		return fmt.Errorf("encode the kernel settings: %w", err)
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		return fmt.Errorf("save the kernel settings: %w", err)
	}
	return nil
}

// setSysctls raises settings that are too low.
func setSysctls(root string) error {
	for name, want := range sysctls {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			continue // not available in this kernel
		}
		have, err := strconv.Atoi(strings.TrimSpace(string(data)))
		if err != nil || have >= want {
			continue
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(strconv.Itoa(want)), 0o644); err != nil {
			return fmt.Errorf("set sysctl %s to %d: %w", name, want, err)
		}
	}
	return nil
}

// restoreSysctls restores the settings that saveSysctls saved. After a reboot it does nothing.
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
		return fmt.Errorf("read the boot ID: %w", err)
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
			return fmt.Errorf("restore sysctl %s: %w", name, err)
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
		return nil, fmt.Errorf("read the saved kernel settings in %s: %w", file, err)
	}
	return saved, nil
}
