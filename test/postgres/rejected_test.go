package postgres

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// TestWraparound_keepsPrimary has a primary run out of transaction IDs. Each heartbeat is answered with SQLSTATE 54000: the primary
// keeps running, so that it can be read and vacuumed, and says what to do. After that it takes writes again.
func TestWraparound_keepsPrimary(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, func(pg *databasev1alpha1.PostgreSQL) {
		pg.Spec.Parameters = map[string]databasev1alpha1.ParameterValue{"max_prepared_transactions": "10", "autovacuum_naptime": "1s"}
	})
	leader := c.settled()
	c.prepareLedger()
	other := c.other(leader)
	leader.exec(t, "BEGIN; INSERT INTO ledger_rows VALUES ('old', 1); PREPARE TRANSACTION 'forgotten'")
	other.stop()
	leader.stop()
	leader.exhaustTransactions(t)
	for _, dir := range []string{"pgdata", "fettle"} { // it copies the primary anew
		if err := os.RemoveAll(filepath.Join(other.dir, "data", dir)); err != nil {
			t.Fatal(err)
		}
	}
	from := len(leader.log.text())
	leader.start()
	other.start()
	c.eventually("the primary to say that it rejects writes", patience, leader.says(func(s agentapi.Status) bool {
		return s.Role == agentapi.Primary && s.Reason == databasev1alpha1.ReasonWritesRejected && all(s.Message, leader.pod, "54000", "VACUUM")
	}))
	if leader.read("SELECT gid FROM pg_prepared_xacts") != "forgotten" {
		t.Error("the primary can't be read")
	}
	time.Sleep(15 * time.Second) // longer than a Lease and a fence
	if log := leader.since(from); strings.Contains(log, `"action":"stop"`) || strings.Count(log, "PostgreSQL accepts connections") != 1 {
		t.Errorf("%s was stopped for the errors that it answers", leader.pod)
	}
	if holder, _ := c.lease(); holder != leader.pod || !leader.probe("/readyz") {
		t.Errorf("%s has the Lease, and not the ready %s", holder, leader.pod)
	}
	leader.exec(t, "ROLLBACK PREPARED 'forgotten'")
	c.writes(t, leader, "after") // autovacuum has frozen what is old by then
}

// exhaustTransactions has the next transaction ID of a server that is down be beyond the limit at which PostgreSQL takes no writes.
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
