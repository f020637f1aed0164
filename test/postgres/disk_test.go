package postgres

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// smallVolume is the size of the volume to fill, in MiB.
const smallVolume = 192

// mountSmallVolume mounts a separate file system as the instance's volume, and unmounts it after the test.
func (i *instance) mountSmallVolume(t *testing.T) {
	t.Helper()
	volume := filepath.Join(i.dir, "data")
	if err := syscall.Mount("tmpfs", volume, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=0700", smallVolume)); err != nil {
		t.Skipf("mount is not permitted: %s", err)
	}
	t.Cleanup(func() {
		i.kill()
		if err := syscall.Unmount(volume, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %s", volume, err)
		}
	})
	own(t, volume)
}

// fillVolume fills the instance's volume except for some bytes. The returned function frees the space.
func (i *instance) fillVolume(t *testing.T, but int64) (free func()) {
	t.Helper()
	path := filepath.Join(i.dir, "data", "ballast")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var stat syscall.Statfs_t
	if err := syscall.Statfs(path, &stat); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Fallocate(int(file.Fd()), 0, 0, int64(stat.Bavail)*stat.Bsize-but); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

// TestDiskFull_keepsPrimary fills the volume of a primary twice: first tables cannot grow, then PostgreSQL crashes because
// it cannot write WAL. There is no failover, and writes succeed again once there is space.
func TestDiskFull_keepsPrimary(t *testing.T) {
	t.Parallel()
	c := newStoppedCluster(t, 2, 2, nil)
	full := c.instances[0]
	full.mountSmallVolume(t)
	full.start()
	c.eventually("a primary", timeout, func() bool { return c.primary() == full })
	c.instances[1].start()
	c.waitSettled()
	c.prepareWrites()
	full.exec(t, "INSERT INTO acks_rows VALUES ('before', 1)")
	full.exec(t, "CREATE TABLE large AS SELECT repeat(md5(n::text), 20) AS text FROM generate_series(1, 2000) n")
	_, postmaster := full.pids()

	free := full.fillVolume(t, 0)
	c.eventually("a write to be rejected", timeout, func() bool {
		_, err := full.openConn(t).Exec(t.Context(), "INSERT INTO large SELECT text FROM large LIMIT 200")
		rejection, ok := errors.AsType[*pgconn.PgError](err)
		return ok && rejection.Code == "53100"
	})
	c.wantDiskFull(t, full)
	c.eventually("a full volume to be read", timeout, func() bool {
		return full.queryOnce("SELECT client FROM acks_rows") == "before" && full.probe("/readyz")
	})
	free()
	c.waitWritable(t, full, "between")
	if _, now := full.pids(); now != postmaster {
		t.Error("PostgreSQL was restarted")
	}
	c.crashOnDiskFull(t, full)
	if status, _ := full.status(); status.Timeline != 1 {
		t.Errorf("the timeline is %d", status.Timeline)
	}
}

// crashOnDiskFull makes PostgreSQL crash because it cannot write WAL.
func (c *cluster) crashOnDiskFull(t *testing.T, full *instance) {
	t.Helper()
	from := len(full.log.text())
	free := full.fillVolume(t, 0)
	c.eventually("PostgreSQL to end", timeout, func() bool {
		conn, err := c.connect(t.Context(), full.address(0))
		if err != nil {
			return strings.Contains(full.logSince(from), "PostgreSQL exited")
		}
		defer conn.Close(t.Context())
		_, err = conn.Exec(t.Context(), "SELECT pg_logical_emit_message(true, 'test', repeat('m', 8000000))")
		return err != nil && strings.Contains(full.logSince(from), "PostgreSQL exited")
	})
	c.wantDiskFull(t, full)
	time.Sleep(8 * time.Second)
	if ends := strings.Count(full.logSince(from), "PostgreSQL exited"); ends > 2 {
		t.Errorf("PostgreSQL was started and ended %d times on a full volume", ends)
	}
	c.wantDiskFull(t, full)
	free()
	c.waitWritable(t, full, "after")
}

// wantDiskFull checks that the agent's status reports the full volume, and that there was no failover.
func (c *cluster) wantDiskFull(t *testing.T, full *instance) {
	t.Helper()
	c.eventually("the agent to report the full volume", timeout, full.statusIs(func(s agentapi.Status) bool {
		return s.DiskFull && containsAll(s.Message, full.pod, "full", "spec.storage")
	}))
	if holder, _ := c.lease(); holder != full.pod {
		t.Errorf("%s has the Lease", holder)
	}
}

// waitWritable waits until writes through the Service reach that instance.
func (c *cluster) waitWritable(t *testing.T, to *instance, row string) {
	t.Helper()
	c.eventually("writes", timeout, func() bool {
		if c.primary() != to {
			return false
		}
		conn, err := c.connect(t.Context(), c.serviceAddress())
		if err != nil {
			return false
		}
		defer conn.Close(t.Context())
		_, err = conn.Exec(t.Context(), "INSERT INTO acks_rows VALUES ('"+row+"', 1)")
		return err == nil
	})
	c.eventually("no problem in the agent's status", timeout, to.statusIs(func(s agentapi.Status) bool { return !s.DiskFull && s.Message == "" && s.Ready }))
}
