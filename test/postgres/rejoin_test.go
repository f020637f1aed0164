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

// strand has the primary write a row that nobody else gets, and be lost. It returns it, with the new primary there.
func (c *cluster) strand(t *testing.T, row string) (stranded *instance) {
	t.Helper()
	stranded = c.settled()
	stranded.cutOff("replication")
	stranded.exec(t, "INSERT INTO ledger_rows VALUES ('"+row+"', 1)")
	stranded.kill()
	var leader *instance
	c.eventually("another primary", patience, func() bool { leader = c.leader(); return leader != nil && leader != stranded })
	stranded.rejoin()
	leader.exec(t, "INSERT INTO ledger_rows VALUES ('after "+row+"', 1)")
	return stranded
}

// follows waits for all to stream, and holds that a former primary has what the present one has, and nothing else.
func (c *cluster) follows(t *testing.T, former *instance, row string) {
	t.Helper()
	leader := c.settled()
	const rows = "SELECT coalesce(string_agg(client, ',' ORDER BY client), '-') FROM ledger_rows"
	want := leader.answer(rows)
	c.eventually(former.pod+" to have the primary's rows", patience, func() bool { return former.read(rows) == want })
	if strings.Contains(","+want, ","+row) || !strings.Contains(want, "after "+row) {
		t.Errorf("%s: the rows are %s", row, want)
	}
	theirs, ours := c.history(t, leader), c.history(t, former)
	if theirs != ours {
		t.Errorf("the history of %s is %q, that of the primary %q", former.pod, ours, theirs)
	}
}

// history is that of the instance's timeline.
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

// killAt starts an instance and kills its agent as soon as a path of its volume is there.
func (i *instance) killAt(what, path string) {
	i.cluster.t.Helper()
	i.start()
	i.cluster.eventually(what, patience, func() bool {
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

// TestRejoin has former primaries come back: those that stopped in order, those that wrote what nobody else has, and those
// whose data can't be rewound, with agents that are killed in the middle.
func TestRejoin(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	first := c.settled()
	c.prepareLedger()

	c.annotate(databasev1alpha1.AnnotationSwitchover, c.other(first).pod)
	c.eventually("the switchover", patience, func() bool { leader := c.leader(); return leader != nil && leader != first })
	c.annotate(databasev1alpha1.AnnotationSwitchover, "")
	c.settled()
	if strings.Contains(first.log.text(), `"task":"rewind"`) {
		t.Errorf("%s stopped in order, and was rewound", first.pod)
	}

	const behind = "SELECT count(*)::text FROM pg_replication_slots WHERE restart_lsn > '0/0' AND pg_last_wal_replay_lsn() - restart_lsn < 1 << 20"
	c.eventually("slots on a former primary, which move on", patience, func() bool { return first.read(behind) == "2" })

	former := c.strand(t, "lost")
	former.start()
	c.follows(t, former, "lost")
	c.eventually("an event to say that "+former.pod+" was rewound", patience, func() bool { return c.told("Rewound", former.pod) })
	if !strings.Contains(former.log.text(), "timeline diverged from") {
		t.Errorf("no log says that %s was rewound", former.pod)
	}
	if strings.Contains(former.log.text(), `"action":"reclone"`) {
		t.Errorf("%s was copied, though it could be rewound", former.pod)
	}

	c.halfDone(t)
	c.onRequest(t)
}

// halfDone kills an agent in the middle of a rewind, and then in the middle of the copy that is to replace what it left.
func (c *cluster) halfDone(t *testing.T) {
	t.Helper()
	former := c.strand(t, "half")
	from := len(former.log.text())
	former.killAt("a rewind to begin", "fettle/needs-reclone")
	former.killAt("a copy to begin", "pgdata.clone/base")
	if _, err := os.Stat(filepath.Join(former.dir, "data", "pgdata", "PG_VERSION")); err != nil {
		t.Errorf("the old data of %s were removed before there were new ones: %s", former.pod, err)
	}
	if strings.Contains(former.since(from), "PostgreSQL accepts connections") {
		t.Errorf("%s was started with data that were half rewound", former.pod)
	}
	former.start()
	c.follows(t, former, "half")
	c.eventually("an event to say that "+former.pod+" was copied", patience, func() bool { return c.told("Recloned", former.pod) })
	for _, left := range []string{"pgdata.clone", "pgdata.old", "fettle/needs-reclone"} {
		if _, err := os.Stat(filepath.Join(former.dir, "data", left)); err == nil {
			t.Errorf("%s is left", left)
		}
	}
}

// onRequest has data that can't be rewound wait for a person where spec.autoReclone is false.
func (c *cluster) onRequest(t *testing.T) {
	t.Helper()
	c.change(func(spec *databasev1alpha1.PostgreSQLSpec) { spec.AutoReclone = new(false) })
	former := c.strand(t, "kept")
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
	c.eventually("the state page to ask for a person", patience, former.says(func(s agentapi.Status) bool {
		return s.NeedsReclone && s.Phase == agentapi.Stopped && all(s.Message, "spec.replicaRecovery is Manual", "fettle.dev/reclone="+former.pod)
	}))
	time.Sleep(2 * time.Second)
	if status, _ := former.status(); !status.NeedsReclone || strings.Contains(former.since(from), `"action":"reclone"`) {
		t.Errorf("%s was copied though nobody asked for it: %+v", former.pod, status)
	}
	c.annotate(databasev1alpha1.AnnotationReclone, former.pod)
	c.follows(t, former, "kept")
}
