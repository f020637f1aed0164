package postgres

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// TestReclone_crashLoop has a standby that cannot start: it is recloned without a person.
func TestReclone_crashLoop(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	leader := c.settled()
	c.prepareLedger()
	broken := c.other(leader)
	broken.kill()
	control := filepath.Join(broken.dir, "data", "pgdata", "global", "pg_control")
	content, err := os.ReadFile(control)
	if err != nil {
		t.Fatal(err)
	}
	content[250] ^= 1 // one bit of the nonce for passwords that do not exist
	if err := os.WriteFile(control, content, 0o600); err != nil {
		t.Fatal(err)
	}
	leader.exec(t, "INSERT INTO ledger_rows VALUES ('meanwhile', 1)")
	from := len(broken.log.text())
	broken.start()
	c.eventually(broken.pod+" to be recloned", 4*time.Minute, func() bool { return c.told("Recloned", broken.pod) })
	c.same(t, leader, broken)
	if ends := strings.Count(broken.since(from), "PostgreSQL exited"); ends > 6 {
		t.Errorf("PostgreSQL ended %d times", ends)
	}
}

// TestReclone_asked has a standby that runs and cannot stream: it is recloned when a person asks for it.
func TestReclone_asked(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, func(pg *databasev1alpha1.PostgreSQL) { pg.Spec.AutoReclone = new(false) })
	leader := c.settled()
	c.prepareLedger()
	broken := c.other(leader)
	broken.kill()
	segments, err := filepath.Glob(filepath.Join(broken.dir, "data", "pgdata", "pg_wal", "0*[0-9A-F]"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("no segments: %v", err)
	}
	for _, segment := range segments {
		if err := os.Truncate(segment, 0); err != nil { // a file system that lost them in a crash of the node
			t.Fatal(err)
		}
	}
	leader.exec(t, "INSERT INTO ledger_rows VALUES ('meanwhile', 1)")
	broken.start()
	c.eventually(broken.pod+" to receive nothing", 2*time.Minute, broken.says(func(s agentapi.Status) bool { return !s.Ready && s.Phase == agentapi.Running }))
	c.annotate(databasev1alpha1.AnnotationReclone, broken.pod)
	c.eventually(broken.pod+" to be recloned", 3*time.Minute, func() bool { return c.told("Recloned", broken.pod) })
	c.same(t, leader, broken)
	if strings.Count(broken.log.text(), `"action":"reclone"`) != 1 {
		t.Errorf("%s was recloned more than once for one request", broken.pod)
	}
}
