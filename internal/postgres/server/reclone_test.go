package server_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

// TestReclone reclones an instance after a failed attempt, and recovers from a crash at each step.
func TestReclone(t *testing.T) {
	ctx := bounded(t)
	ca := testpg.NewCA(t)
	primary := ca.Primary(t, "shop-0")
	i := testpg.New(t, "shop-1")
	must(t, i.Clone(ctx, ca.Source(primary, "shop-1")))
	mark := filepath.Join(i.DataDir(), "mark")
	marked := func() bool { _, err := os.Stat(mark); return err == nil }
	must(t, os.WriteFile(mark, nil, 0o600))
	old := filepath.Join(filepath.Dir(i.DataDir()), "pgdata.old")

	unreachable := server.Source{Upstream: ca.Upstream(testpg.New(t, "shop-2")), ApplicationName: "shop-1"}
	if err := i.Reclone(ctx, unreachable, ""); err == nil || !marked() {
		t.Errorf("the data are gone after a copy that failed: %v", err)
	}
	must(t, os.MkdirAll(filepath.Join(i.CloneDir(), "base"), 0o700)) // killed while it copied
	must(t, i.RecoverReclone(ctx))
	must(t, os.Rename(i.DataDir(), old)) // killed between the two renames
	must(t, i.RecoverReclone(ctx))
	if content, err := i.DataState(); content != server.Complete || err != nil || !marked() {
		t.Errorf("the data did not come back: %s, %v", content, err)
	}
	wantGone(t, i.CloneDir())
	must(t, i.Reclone(ctx, ca.Source(primary, "shop-1"), ""))
	if standby, err := i.IsStandby(); err != nil || !standby || marked() {
		t.Errorf("it is no copy: standby %v, %v, the old data %v", standby, err, marked())
	}
	must(t, os.MkdirAll(old, 0o700)) // killed before the old data were removed
	must(t, i.RecoverReclone(ctx))
	wantGone(t, old)
	if content, err := i.DataState(); content != server.Complete || err != nil {
		t.Errorf("the copy is gone: %s, %v", content, err)
	}

	must(t, os.WriteFile(mark, nil, 0o600))
	name := server.KeptDirName(time.Now())
	must(t, i.Reclone(ctx, ca.Source(primary, "shop-1"), name))
	must(t, i.RecoverReclone(ctx))
	if _, err := os.Stat(filepath.Join(filepath.Dir(i.DataDir()), name, "mark")); err != nil || marked() {
		t.Errorf("the old data are not kept as %s: %v, they are in place %v", name, err, marked())
	}
}

func wantGone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path); err == nil {
		t.Errorf("%s is left", path)
	}
}
