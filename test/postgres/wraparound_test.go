package postgres

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// TestWraparound_keepsPrimary: a primary runs out of transaction IDs, and each heartbeat fails with SQLSTATE 54000. The
// primary keeps running for reads and VACUUM, and reports what to do. Afterwards it accepts writes again.
func TestWraparound_keepsPrimary(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, func(pg *databasev1alpha1.PostgreSQL) {
		pg.Spec.Parameters = map[string]intstr.IntOrString{"max_prepared_transactions": intstr.FromString("10"), "autovacuum_naptime": intstr.FromString("1s")}
	})
	primary := c.waitSettled()
	c.prepareWrites()
	other := c.other(primary)
	primary.exec(t, "BEGIN; INSERT INTO acks_rows VALUES ('old', 1); PREPARE TRANSACTION 'forgotten'")
	other.stop()
	primary.stop()
	primary.exhaustTransactions(t)
	for _, dir := range []string{"pgdata", "fettle"} { // it is recloned from the primary
		if err := os.RemoveAll(filepath.Join(other.dir, "data", dir)); err != nil {
			t.Fatal(err)
		}
	}
	from := len(primary.log.text())
	primary.start()
	other.start()
	c.eventually("the primary to say that it rejects writes", timeout, primary.statusIs(func(s agentapi.Status) bool {
		return s.Role == agentapi.Primary && s.Reason == databasev1alpha1.ReasonWritesRejected && containsAll(s.Message, primary.pod, "54000", "VACUUM")
	}))
	if primary.queryOnce("SELECT gid FROM pg_prepared_xacts") != "forgotten" {
		t.Error("the primary can't be read")
	}
	time.Sleep(15 * time.Second) // longer than a Lease and a fence
	if log := primary.logSince(from); strings.Contains(log, `"action":"stop"`) || strings.Count(log, "PostgreSQL accepts connections") != 1 {
		t.Errorf("%s was stopped for the errors that it answers", primary.pod)
	}
	if holder, _ := c.lease(); holder != primary.pod || !primary.probe("/readyz") {
		t.Errorf("%s has the Lease, and not the ready %s", holder, primary.pod)
	}
	primary.exec(t, "ROLLBACK PREPARED 'forgotten'")
	c.waitWritable(t, primary, "after") // autovacuum has frozen what is old by then
}

// exhaustTransactions sets the next transaction ID of a stopped server beyond the wraparound limit.
func (i *instance) exhaustTransactions(t *testing.T) {
	t.Helper()
	data := filepath.Join(i.dir, "data", "pgdata")
	status := filepath.Join(data, "pg_xact", "07FD") // has the state of that transaction
	if err := os.WriteFile(status, make([]byte, 256<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	own(t, status)
	programs, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_resetwal")
	if len(programs) == 0 {
		t.Skip("there is no pg_resetwal")
	}
	reset := exec.Command(programs[len(programs)-1], "-x", "2144584347", data)
	reset.SysProcAttr = &syscall.SysProcAttr{Credential: credential()}
	if output, err := reset.CombinedOutput(); err != nil {
		t.Fatalf("%s: %s", err, output)
	}
}
