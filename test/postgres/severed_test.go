package postgres

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// keepLittle has a primary keep as little of its log as it can for standbys that are away.
func keepLittle(pg *databasev1alpha1.PostgreSQL) {
	pg.Spec.Parameters = map[string]databasev1alpha1.ParameterValue{"max_slot_wal_keep_size": "16MB", "wal_keep_size": "0"}
}

// TestSevered has the primary remove the log that a standby needs which was away: the standby is made anew by itself, or
// where it must not be, goes on to run and asks for a person.
func TestSevered(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, keepLittle)
	leader := c.settled()
	c.prepareLedger()

	away := c.other(leader)
	c.sever(t, leader, away, "lost")
	away.start()
	c.eventually(away.pod+" to be made anew", 2*time.Minute, func() bool { return c.told("Recloned", away.pod) })
	c.same(t, leader, away)
	if log := away.log.text(); !strings.Contains(log, "required WAL has been removed from the primary") {
		t.Errorf("the log of %s does not say why it was made anew", away.pod)
	}

	c.change(func(spec *databasev1alpha1.PostgreSQLSpec) { spec.AutoReclone = new(false) })
	c.sever(t, leader, away, "kept")
	from := len(away.log.text())
	away.start()
	c.eventually("the state page to ask for a person", 2*time.Minute, away.says(func(s agentapi.Status) bool {
		return s.NeedsReclone && s.Phase == agentapi.Running && !s.Ready && all(s.Message, "required WAL has been removed", "spec.replicaRecovery is Manual", "fettle.dev/reclone="+away.pod)
	}))
	if strings.Contains(away.since(from), `"action":"reclone"`) {
		t.Errorf("%s was made anew though nobody asked for it", away.pod)
	}
	if rows := away.read("SELECT count(*)::text FROM ledger_rows WHERE client = 'lost'"); rows != "1" {
		t.Errorf("%s can't be read meanwhile: %q", away.pod, rows)
	}
	c.annotate(databasev1alpha1.AnnotationReclone, away.pod)
	c.same(t, leader, away)
}

// sever stops a standby, and has the primary write a row and remove the log that the standby needs next.
func (c *cluster) sever(t *testing.T, leader, away *instance, row string) {
	t.Helper()
	streams := func(i *instance) {
		c.eventually(i.pod+" to have it", time.Minute, func() bool {
			return leader.superuser(t, "SELECT count(*) FROM pg_stat_replication WHERE application_name = '"+i.pod+"' AND flush_lsn >= pg_current_wal_lsn()") == "1"
		})
	}
	// With so little log, a standby may lack some as soon as it was copied: it is recloned while the others run.
	for _, i := range c.instances {
		if i != leader {
			streams(i)
		}
	}
	at := leader.superuser(t, "SELECT pg_walfile_name(pg_current_wal_lsn())")
	away.stop()
	leader.exec(t, "INSERT INTO ledger_rows VALUES ('"+row+"', 1)")
	for range 6 {
		leader.superuser(t, "SELECT pg_switch_wal()")
		leader.exec(t, "INSERT INTO ledger_rows VALUES ('more "+row+"', 1) ON CONFLICT DO NOTHING")
		// The WAL that the other standby needs must stay. The WAL sender of the one that was stopped may still be listed.
		for _, i := range c.instances {
			if i != leader && i != away {
				streams(i)
			}
		}
	}
	c.eventually("the log to be removed", time.Minute, func() bool {
		leader.superuser(t, "CHECKPOINT")
		return leader.superuser(t, "SELECT count(*) FROM pg_ls_waldir() WHERE name = '"+at+"'") == "0"
	})
}

// same waits for all to stream, and holds that a standby has the rows of the primary.
func (c *cluster) same(t *testing.T, leader, standby *instance) {
	t.Helper()
	if now := c.settled(); now != leader {
		t.Errorf("%s leads, not %s", now.pod, leader.pod)
	}
	const rows = "SELECT string_agg(client, ',' ORDER BY client) FROM ledger_rows"
	want := leader.read(rows)
	c.eventually(standby.pod+" to have the primary's rows", time.Minute, func() bool { return want != "" && standby.read(rows) == want })
}

// superuser has an instance do something that its owner may not, and returns what it says.
func (i *instance) superuser(t *testing.T, statement string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "psql", "-X", "-A", "-t", "-h", filepath.Join(i.dir, "run"), "-p", strconv.Itoa(i.cluster.ports[0]),
		"-U", "postgres", "-d", "postgres", "-c", statement)
	command.Dir, command.SysProcAttr = i.dir, &syscall.SysProcAttr{Credential: credential()}
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %s: %s: %s", i.pod, statement, err, out)
	}
	return strings.TrimSpace(string(out))
}
