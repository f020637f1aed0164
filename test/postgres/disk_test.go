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

// smallVolume is the size of the volume that is filled, in MiB.
const smallVolume = 192

// small has the instance's volume be a file system of its own, which is taken away with the test.
func (i *instance) small(t *testing.T) {
	t.Helper()
	volume := filepath.Join(i.dir, "data")
	if err := syscall.Mount("tmpfs", volume, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=0700", smallVolume)); err != nil {
		t.Skipf("a volume can't be filled where nothing can be mounted: %s", err)
	}
	t.Cleanup(func() {
		i.kill()
		if err := syscall.Unmount(volume, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %s", volume, err)
		}
	})
	own(t, volume)
}

// fill takes all space of the instance's volume but so many bytes; the returned function gives it back.
func (i *instance) fill(t *testing.T, but int64) (free func()) {
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

// TestFullDisk fills the volume of a primary, twice: so that nothing can be added to tables, and so that PostgreSQL ends
// because it can't add to its log. Nobody takes over, and it writes again as soon as there is space.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	c := newStopped(t, 2, 2, nil)
	full := c.instances[0]
	full.small(t)
	full.start()
	c.eventually("a primary", patience, func() bool { return c.leader() == full })
	c.instances[1].start()
	c.settled()
	c.prepareLedger()
	full.exec(t, "INSERT INTO ledger_rows VALUES ('before', 1)")
	full.exec(t, "CREATE TABLE large AS SELECT repeat(md5(n::text), 20) AS text FROM generate_series(1, 2000) n")
	_, postmaster := full.pids()

	free := full.fill(t, 0)
	c.eventually("a write to be refused", patience, func() bool {
		_, err := full.session(t).Exec(t.Context(), "INSERT INTO large SELECT text FROM large LIMIT 200")
		refusal, ok := errors.AsType[*pgconn.PgError](err)
		return ok && refusal.Code == "53100"
	})
	c.saysFull(t, full)
	c.eventually("a full volume to be read", patience, func() bool {
		return full.read("SELECT client FROM ledger_rows") == "before" && full.probe("/readyz")
	})
	free()
	c.writes(t, full, "between")
	if _, now := full.pids(); now != postmaster {
		t.Error("PostgreSQL was restarted")
	}
	c.logFull(t, full)
	if status, _ := full.status(); status.Timeline != 1 {
		t.Errorf("the timeline is %d", status.Timeline)
	}
}

// logFull has PostgreSQL end because it can't add to its log.
func (c *cluster) logFull(t *testing.T, full *instance) {
	t.Helper()
	from := len(full.log.text())
	free := full.fill(t, 0)
	c.eventually("PostgreSQL to end", patience, func() bool {
		conn, err := c.connect(t.Context(), full.address(0))
		if err != nil {
			return strings.Contains(full.since(from), "PostgreSQL exited")
		}
		defer conn.Close(t.Context())
		_, err = conn.Exec(t.Context(), "SELECT pg_logical_emit_message(true, 'test', repeat('m', 8000000))")
		return err != nil && strings.Contains(full.since(from), "PostgreSQL exited")
	})
	c.saysFull(t, full)
	time.Sleep(8 * time.Second)
	if ends := strings.Count(full.since(from), "PostgreSQL exited"); ends > 2 {
		t.Errorf("PostgreSQL was started and ended %d times on a full volume", ends)
	}
	c.saysFull(t, full)
	free()
	c.writes(t, full, "after")
}

// saysFull holds that the state page tells of it, and that nobody has taken over.
func (c *cluster) saysFull(t *testing.T, full *instance) {
	t.Helper()
	c.eventually("the state page to tell of the full volume", patience, full.says(func(s agentapi.Status) bool {
		return s.DiskFull && all(s.Message, full.pod, "full", "spec.storage")
	}))
	if holder, _ := c.lease(); holder != full.pod {
		t.Errorf("%s has the Lease", holder)
	}
}

// writes waits until rows can be written through the Service, to that instance.
func (c *cluster) writes(t *testing.T, to *instance, row string) {
	t.Helper()
	c.eventually("writes", patience, func() bool {
		if c.leader() != to {
			return false
		}
		conn, err := c.connect(t.Context(), c.serviceAddress())
		if err != nil {
			return false
		}
		defer conn.Close(t.Context())
		_, err = conn.Exec(t.Context(), "INSERT INTO ledger_rows VALUES ('"+row+"', 1)")
		return err == nil
	})
	c.eventually("no complaint any more", patience, to.says(func(s agentapi.Status) bool { return !s.DiskFull && s.Message == "" && s.Ready }))
}
