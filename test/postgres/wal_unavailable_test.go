package postgres

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// retainLittleWAL makes a primary retain as little WAL as possible for disconnected standbys.
func retainLittleWAL(pg *databasev1alpha1.PostgreSQL) {
	pg.Spec.Parameters = map[string]intstr.IntOrString{"max_slot_wal_keep_size": intstr.FromString("16MB"), "wal_keep_size": intstr.FromString("0")}
}

// TestWALUnavailable_reclones: the primary removed WAL that a stopped standby needs. The standby is recloned automatically.
// With spec.replicaRecovery Manual it keeps running and asks for a person.
func TestWALUnavailable_reclones(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, retainLittleWAL)
	primary := c.waitSettled()
	c.prepareWrites()

	away := c.other(primary)
	c.removeNeededWAL(t, primary, away, "lost")
	away.start()
	c.eventually(away.pod+" to be recloned", 2*time.Minute, func() bool { return c.hasEvent("Recloned", away.pod) })
	c.wantSameRows(t, primary, away)
	if log := away.log.text(); !strings.Contains(log, "required WAL has been removed from the primary") {
		t.Errorf("the log of %s does not say why it was recloned", away.pod)
	}

	c.change(func(spec *databasev1alpha1.PostgreSQLSpec) {
		spec.ReplicaRecovery = databasev1alpha1.ReplicaRecoveryManual
	})
	c.removeNeededWAL(t, primary, away, "kept")
	from := len(away.log.text())
	away.start()
	c.eventually("the agent to ask for a person", 2*time.Minute, away.statusIs(func(s agentapi.Status) bool {
		return s.NeedsReclone && s.Phase == agentapi.Running && !s.Ready && containsAll(s.Message, "required WAL has been removed", "spec.replicaRecovery is Manual", "fettle.dev/reclone="+away.pod)
	}))
	if strings.Contains(away.logSince(from), `"action":"reclone"`) {
		t.Errorf("%s was recloned without a request", away.pod)
	}
	if rows := away.queryOnce("SELECT count(*)::text FROM acks_rows WHERE client = 'lost'"); rows != "1" {
		t.Errorf("%s can't be read meanwhile: %q", away.pod, rows)
	}
	c.annotate(databasev1alpha1.AnnotationReclone, away.pod)
	c.wantSameRows(t, primary, away)
}

// removeNeededWAL stops a standby, and makes the primary write a row and remove the WAL that the standby needs next.
func (c *cluster) removeNeededWAL(t *testing.T, primary, away *instance, row string) {
	t.Helper()
	streams := func(i *instance) {
		c.eventually(i.pod+" to have all WAL", time.Minute, func() bool {
			return primary.superuser(t, "SELECT count(*) FROM pg_stat_replication WHERE application_name = '"+i.pod+"' AND flush_lsn >= pg_current_wal_lsn()") == "1"
		})
	}
	// With so little WAL, a standby may miss some right after its base backup: it is recloned while the others run.
	for _, i := range c.instances {
		if i != primary {
			streams(i)
		}
	}
	at := primary.superuser(t, "SELECT pg_walfile_name(pg_current_wal_lsn())")
	away.stop()
	primary.exec(t, "INSERT INTO acks_rows VALUES ('"+row+"', 1)")
	for range 6 {
		primary.superuser(t, "SELECT pg_switch_wal()")
		primary.exec(t, "INSERT INTO acks_rows VALUES ('more "+row+"', 1) ON CONFLICT DO NOTHING")
		// The WAL that the other standby needs must stay. The WAL sender of the stopped one may still be listed.
		for _, i := range c.instances {
			if i != primary && i != away {
				streams(i)
			}
		}
	}
	c.eventually("the WAL to be removed", time.Minute, func() bool {
		primary.superuser(t, "CHECKPOINT")
		return primary.superuser(t, "SELECT count(*) FROM pg_ls_waldir() WHERE name = '"+at+"'") == "0"
	})
}

// wantSameRows waits for all standbys to stream, and checks that a standby has the rows of the primary.
func (c *cluster) wantSameRows(t *testing.T, primary, standby *instance) {
	t.Helper()
	if now := c.waitSettled(); now != primary {
		t.Errorf("%s is primary, not %s", now.pod, primary.pod)
	}
	const rows = "SELECT string_agg(client, ',' ORDER BY client) FROM acks_rows"
	want := primary.queryOnce(rows)
	c.eventually(standby.pod+" to have the primary's rows", time.Minute, func() bool { return want != "" && standby.queryOnce(rows) == want })
}

// superuser runs a statement as superuser, and returns its output.
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
