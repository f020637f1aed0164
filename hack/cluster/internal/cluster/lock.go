package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lock prevents two commands from changing the cluster concurrently. Its file is outside the state directory, which down
// removes.
type lock struct {
	file *os.File
}

// acquire takes the cluster's lock. If another process holds the lock, the error has its PID.
func (c Config) acquire() (*lock, error) { return acquire(filepath.Join("/run", c.Name+".lock")) }

func acquire(path string) (*lock, error) {
	for {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return nil, fmt.Errorf("open the cluster's lock: %w", err)
		}
		if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			holder := make([]byte, 64)
			n, _ := file.Read(holder)
			_ = file.Close()
			if !errors.Is(err, unix.EWOULDBLOCK) {
				return nil, fmt.Errorf("lock %s: %w", path, err)
			}
			return nil, fmt.Errorf("another up or down is running (process %s): wait until it exits", holder[:n])
		}
		if isCurrentFile(file, path) {
			// The PID is only for the error message above, so write errors are ignored.
			_ = file.Truncate(0)
			_, _ = fmt.Fprint(file, os.Getpid())
			return &lock{file}, nil
		}
		_ = file.Close() // another process removed the file between open and flock
	}
}

// release releases the lock. With remove, it also removes the lock file.
func (l *lock) release(remove bool) {
	if remove {
		_ = os.Remove(l.file.Name())
	}
	_ = l.file.Close() // closing the file releases the lock
}

// isCurrentFile reports whether path still names the open file.
func isCurrentFile(file *os.File, path string) bool {
	open, err1 := file.Stat()
	named, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(open, named)
}
