package postgres

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

// diverge writes a row on the primary that no standby receives, and kills the primary. It returns the former primary once
// there is a new one.
func (c *cluster) diverge(t *testing.T, row string) (former *instance) {
	t.Helper()
	former = c.waitSettled()
	former.disconnect("replication")
	former.exec(t, "INSERT INTO acks_rows VALUES ('"+row+"', 1)")
	former.kill()
	var primary *instance
	c.eventually("another primary", timeout, func() bool { primary = c.primary(); return primary != nil && primary != former })
	former.reconnect()
	primary.exec(t, "INSERT INTO acks_rows VALUES ('after "+row+"', 1)")
	return former
}

// wantRejoined waits for all standbys to stream, and checks that a former primary has exactly the rows of the new one.
func (c *cluster) wantRejoined(t *testing.T, former *instance, row string) {
	t.Helper()
	primary := c.waitSettled()
	const rows = "SELECT coalesce(string_agg(client, ',' ORDER BY client), '-') FROM acks_rows"
	want := primary.queryUntil(rows)
	c.eventually(former.pod+" to have the primary's rows", timeout, func() bool { return former.queryOnce(rows) == want })
	if strings.Contains(","+want, ","+row) || !strings.Contains(want, "after "+row) {
		t.Errorf("%s: the rows are %s", row, want)
	}
	theirs, ours := c.history(t, primary), c.history(t, former)
	if theirs != ours {
		t.Errorf("the history of %s is %q, that of the primary %q", former.pod, ours, theirs)
	}
}

// history is the history file of the instance's timeline.
func (c *cluster) history(t *testing.T, i *instance) string {
	t.Helper()
	status, ok := i.status()
	if !ok {
		t.Fatalf("%s does not answer", i.pod)
	}
	content, err := os.ReadFile(filepath.Join(i.dir, "data", "pgdata", "pg_wal", wal.HistoryFile(status.Timeline)))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// killAt starts an instance and kills its agent as soon as a path exists on its volume.
func (i *instance) killAt(what, path string) {
	i.cluster.t.Helper()
	i.start()
	i.cluster.eventually(what, timeout, func() bool {
		for range 20 { // eventually looks seldom
			if _, err := os.Stat(filepath.Join(i.dir, "data", path)); err == nil {
				return true
			}
			time.Sleep(time.Millisecond)
		}
		return false
	})
	agent, _ := i.pids()
	_ = syscall.Kill(agent, syscall.SIGKILL)
	<-i.ended
}

// TestRejoin: former primaries rejoin after a clean shutdown, after they diverged, and when pg_rewind cannot repair them.
// Agents are killed in between.
func TestRejoin(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	first := c.waitSettled()
	c.prepareWrites()

	c.annotate(databasev1alpha1.AnnotationSwitchover, c.other(first).pod)
	c.eventually("the switchover", timeout, func() bool { primary := c.primary(); return primary != nil && primary != first })
	c.annotate(databasev1alpha1.AnnotationSwitchover, "")
	c.waitSettled()
	if strings.Contains(first.log.text(), `"task":"rewind"`) {
		t.Errorf("%s stopped in order, and was rewound", first.pod)
	}

	const behind = "SELECT count(*)::text FROM pg_replication_slots WHERE restart_lsn > '0/0' AND pg_last_wal_replay_lsn() - restart_lsn < 1 << 20"
	c.eventually("slots on a former primary that advance", timeout, func() bool { return first.queryOnce(behind) == "2" })

	former := c.diverge(t, "lost")
	former.start()
	c.wantRejoined(t, former, "lost")
	c.eventually("an event to say that "+former.pod+" was rewound", timeout, func() bool { return c.hasEvent("Rewound", former.pod) })
	if !strings.Contains(former.log.text(), "timeline diverged from") {
		t.Errorf("no log says that %s was rewound", former.pod)
	}
	if strings.Contains(former.log.text(), `"action":"reclone"`) {
		t.Errorf("%s was copied, though it could be rewound", former.pod)
	}

	c.interruptRejoin(t)
	c.recloneOnRequest(t)
}

// interruptRejoin kills an agent during pg_rewind, and then during the base backup that replaces the data.
func (c *cluster) interruptRejoin(t *testing.T) {
	t.Helper()
	former := c.diverge(t, "half")
	from := len(former.log.text())
	former.killAt("a rewind to begin", "fettle/needs-reclone")
	former.killAt("a copy to begin", "pgdata.clone/base")
	if _, err := os.Stat(filepath.Join(former.dir, "data", "pgdata", "PG_VERSION")); err != nil {
		t.Errorf("the old data of %s were removed before there were new ones: %s", former.pod, err)
	}
	if strings.Contains(former.logSince(from), "PostgreSQL accepts connections") {
		t.Errorf("%s was started with data that were half rewound", former.pod)
	}
	former.start()
	c.wantRejoined(t, former, "half")
	c.eventually("an event to say that "+former.pod+" was copied", timeout, func() bool { return c.hasEvent("Recloned", former.pod) })
	for _, left := range []string{"pgdata.clone", "pgdata.old", "fettle/needs-reclone"} {
		if _, err := os.Stat(filepath.Join(former.dir, "data", left)); err == nil {
			t.Errorf("%s is left", left)
		}
	}
}

// recloneOnRequest: with spec.replicaRecovery Manual, data that cannot be rewound wait for a request.
func (c *cluster) recloneOnRequest(t *testing.T) {
	t.Helper()
	c.change(func(spec *databasev1alpha1.PostgreSQLSpec) {
		spec.ReplicaRecovery = databasev1alpha1.ReplicaRecoveryManual
	})
	former := c.diverge(t, "kept")
	segments, err := filepath.Glob(filepath.Join(former.dir, "data", "pgdata", "pg_wal", "0*[0-9A-F]"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("no segments: %v", err)
	}
	for _, segment := range segments {
		if err := os.Remove(segment); err != nil {
			t.Fatal(err)
		}
	}
	from := len(former.log.text())
	former.start()
	c.eventually("the agent to ask for a person", timeout, former.statusIs(func(s agentapi.Status) bool {
		return s.NeedsReclone && s.Phase == agentapi.Stopped && containsAll(s.Message, "spec.replicaRecovery is Manual", "fettle.dev/reclone="+former.pod)
	}))
	time.Sleep(2 * time.Second)
	if status, _ := former.status(); !status.NeedsReclone || strings.Contains(former.logSince(from), `"action":"reclone"`) {
		t.Errorf("%s was recloned without a request: %+v", former.pod, status)
	}
	c.annotate(databasev1alpha1.AnnotationReclone, former.pod)
	c.wantRejoined(t, former, "kept")
}
