package manifest

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/fettle-dev/fettle/internal/backup/store"
	"github.com/fettle-dev/fettle/internal/testenv/fakes3"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
)

func openFake(t *testing.T, server *fakes3.Server) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), server.Destination(), store.Keys{Files: fakes3.Files()}, "shop/nightly", store.PermitLoopback())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestWrite_isReadBack: a manifest of the same size with other contents is valid, and describes another backup.
func TestWrite_isReadBack(t *testing.T) {
	server := fakes3.Start(t)
	server.Stored = func(_ string, o *fakes3.Object) int {
		o.Content = bytes.Replace(o.Content, []byte("shop.dump"), []byte("shop.DUMP"), 1)
		return 0
	}
	err := Write(t.Context(), openFake(t, server), logical("new", started.AddDate(0, 0, 1)))
	if problem, ok := errors.AsType[*store.Error](err); !ok || problem.Reason != backupv1alpha1.ReasonStoredDiffers {
		t.Errorf("%v, want StoredDiffers", err)
	}
}

// TestDelete_manifestFirst: what is left of a backup after an interruption is not a backup.
func TestDelete_manifestFirst(t *testing.T) {
	server := fakes3.Start(t)
	for _, name := range []string{"a.dump", "manifest.json", "z.dump"} {
		server.Put("shop/nightly/runs/old/"+name, "x")
	}
	server.Put("shop/nightly/runs/older/manifest.json", "x")
	if err := Delete(t.Context(), openFake(t, server), "old"); err != nil {
		t.Fatal(err)
	}
	deleted := server.Deleted()
	if len(deleted) < 3 || !strings.HasSuffix(deleted[0], "/runs/old/manifest.json") {
		t.Errorf("deleted %v", deleted)
	}
	if left := server.Keys(); !slices.Equal(left, []string{"shop/nightly/runs/older/manifest.json"}) {
		t.Errorf("%v remain", left)
	}
}
