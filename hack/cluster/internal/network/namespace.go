package network

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// nsfsMagic is the file system type of a namespace that is mounted on a file.
const nsfsMagic = 0x6e736673

// isNamespace reports whether a namespace is mounted on the file.
func isNamespace(file string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(file, &fs) == nil && fs.Type == nsfsMagic
}

// ensureNamespace creates a network namespace and mounts it on the file, unless a namespace is mounted there. It does not use
// `ip netns add`, which bind-mounts /run/netns on itself and so keeps the namespaces of deleted pods alive.
func ensureNamespace(file string) error {
	if isNamespace(file) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file, nil, 0o444); err != nil {
		return err
	}
	done := make(chan error)
	go func() {
		// The thread stays locked: it exits with this goroutine, so no other goroutine runs in the new namespace.
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("unshare: %w", err)
			return
		}
		source := fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid())
		done <- unix.Mount(source, file, "", unix.MS_BIND, "")
	}()
	return <-done
}

func unmount(file string) error {
	for isNamespace(file) {
		if err := unix.Unmount(file, unix.MNT_DETACH); err != nil {
			return err
		}
	}
	_, err := os.Stat(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
