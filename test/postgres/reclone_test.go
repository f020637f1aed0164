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

// TestReclone_crashLoop: a standby that cannot start is recloned automatically.
func TestReclone_crashLoop(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	primary := c.waitSettled()
	c.prepareWrites()
	broken := c.other(primary)
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
	primary.exec(t, "INSERT INTO acks_rows VALUES ('meanwhile', 1)")
	from := len(broken.log.text())
	broken.start()
	c.eventually(broken.pod+" to be recloned", 4*time.Minute, func() bool { return c.hasEvent("Recloned", broken.pod) })
	c.wantSameRows(t, primary, broken)
	if ends := strings.Count(broken.logSince(from), `"msg":"PostgreSQL exited"`); ends > 6 {
		t.Errorf("PostgreSQL ended %d times", ends)
	}
}

// TestReclone_onRequest: a standby that runs but cannot stream is recloned when a person requests it.
func TestReclone_onRequest(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, func(pg *databasev1alpha1.PostgreSQL) {
		pg.Spec.ReplicaRecovery = databasev1alpha1.ReplicaRecoveryManual
	})
	primary := c.waitSettled()
	c.prepareWrites()
	broken := c.other(primary)
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
	primary.exec(t, "INSERT INTO acks_rows VALUES ('meanwhile', 1)")
	broken.start()
	c.eventually(broken.pod+" to receive nothing", 2*time.Minute, broken.statusIs(func(s agentapi.Status) bool { return !s.Ready && s.Phase == agentapi.Running }))
	c.annotate(databasev1alpha1.AnnotationReclone, broken.pod)
	c.eventually(broken.pod+" to be recloned", 3*time.Minute, func() bool { return c.hasEvent("Recloned", broken.pod) })
	c.wantSameRows(t, primary, broken)
	if strings.Count(broken.log.text(), `"action":"reclone"`) != 1 {
		t.Errorf("%s was recloned more than once for one request", broken.pod)
	}
}
