package cluster

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// removeFiles removes the cluster's directories and the files that kubelet, containerd and CNI wrote elsewhere.
func (c Config) removeFiles() (string, error) {
	for _, dir := range []string{c.Run, c.State} {
		if err := os.RemoveAll(dir); err != nil {
			return "", fmt.Errorf("remove the cluster's files: %w", err)
		}
	}
	if err := errors.Join(
		c.removeLogLinks("/var/log/containers"),
		c.removeCNIResults("/var/lib/cni/results"),
		removeStaleSockets("/run/containerd/s", "/var/lib/kubelet/device-plugins"),
	); err != nil {
		return "", err
	}
	// Rmdir removes only empty directories, so directories in use by other software stay.
	for _, dir := range []string{
		"/var/log/containers", "/var/log/pods", "/var/lib/cni/results", "/var/lib/cni/networks", "/var/lib/cni",
		"/run/containerd/s", "/run/containerd",
		"/var/lib/kubelet/device-plugins", "/var/lib/kubelet",
	} {
		_ = unix.Rmdir(dir)
	}
	return "removed; kept " + c.Cache, nil
}

// removeLogLinks removes the kubelets' symbolic links to container logs.
func (c Config) removeLogLinks(dir string) error {
	links, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return err
	}
	for _, link := range links {
		target, err := os.Readlink(link)
		if err == nil && strings.HasPrefix(target, c.State+"/") {
			if err := os.Remove(link); err != nil {
				return fmt.Errorf("remove the symbolic link to a log: %w", err)
			}
		}
	}
	return nil
}

// removeCNIResults removes the cached CNI results of the cluster's pods.
func (c Config) removeCNIResults(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, c.Name+"-*"))
	if err != nil {
		return err
	}
	loopback, err := filepath.Glob(filepath.Join(dir, "cni-loopback-*"))
	if err != nil {
		return err
	}
	for _, file := range append(files, loopback...) {
		data, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(data), c.Run+"/") && !strings.HasPrefix(filepath.Base(file), c.Name+"-") {
			continue
		}
		if err := os.Remove(file); err != nil {
			return fmt.Errorf("remove the CNI results: %w", err)
		}
	}
	return nil
}

// removeStaleSockets removes the sockets in the directories that no process listens on.
func removeStaleSockets(dirs ...string) error {
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			if e.Type()&os.ModeSocket == 0 {
				continue
			}
			conn, err := net.DialTimeout("unix", path, time.Second)
			if err == nil {
				_ = conn.Close()
				continue
			}
			if errors.Is(err, unix.ECONNREFUSED) {
				if err := os.Remove(path); err != nil {
					return fmt.Errorf("remove a stale socket: %w", err)
				}
			}
		}
	}
	return nil
}
