package network

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// nsfsMagic is the file system type of a namespace that is bound to a file.
const nsfsMagic = 0x6e736673

// IsNamespace says whether a namespace is bound to the file.
func IsNamespace(file string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(file, &fs) == nil && fs.Type == nsfsMagic
}

// ensureNamespace binds a new network namespace to the file, unless one is bound to it. It does not use
// `ip netns add`, which mounts /run/netns on itself and so pins the namespaces of all pods that exist by then.
func ensureNamespace(file string) error {
	if IsNamespace(file) {
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
		// The thread is never unlocked: it ends with this goroutine, and no other code runs in the new namespace.
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
	for IsNamespace(file) {
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
