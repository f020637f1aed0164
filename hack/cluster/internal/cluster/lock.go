package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lock keeps two commands from changing the cluster at once. It lies outside the state folder, which goes with down.
type lock struct {
	file *os.File
}

// acquire takes the cluster's lock, or says who has it.
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
			return nil, fmt.Errorf("another up or down is at work (process %s): wait until it has ended", holder[:n])
		}
		if stillNamed(file, path) {
			// Only for the message above: the lock is held whether it can be written or not.
			_ = file.Truncate(0)
			_, _ = fmt.Fprint(file, os.Getpid())
			return &lock{file}, nil
		}
		_ = file.Close() // a down removed it between open and flock
	}
}

// release gives the lock back. With remove, its file goes too.
func (l *lock) release(remove bool) {
	if remove {
		_ = os.Remove(l.file.Name())
	}
	_ = l.file.Close() // the kernel frees the lock with it
}

func stillNamed(file *os.File, path string) bool {
	open, err1 := file.Stat()
	named, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(open, named)
}
