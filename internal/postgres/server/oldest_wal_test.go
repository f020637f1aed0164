package server_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fettle-dev/fettle/internal/postgres/wal"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

// TestOldestWAL finds the oldest segment among segments of several timelines and other files.
func TestOldestWAL(t *testing.T) {
	i := testpg.New(t, "oldest-0")
	dir := filepath.Join(i.DataDir(), "pg_wal")
	if err := os.MkdirAll(filepath.Join(dir, "archive_status"), 0o700); err != nil {
		t.Fatal(err)
	}
	put := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("00000002.history")
	put("000000010000000000000001.partial")
	if at, err := i.OldestWAL(16 << 20); err == nil {
		t.Errorf("no segment, but the WAL starts at %s", at)
	}
	put("000000030000000200000001")
	put("0000000200000001000000FE")
	put("0000000100000001000000FF")
	put("00000003000000FF00000000")
	for size, want := range map[int64]wal.LSN{16 << 20: 1<<32 + 0xFE<<24, 1 << 20: 1<<32 + 0xFE<<20} {
		if at, err := i.OldestWAL(size); err != nil || at != want {
			t.Errorf("segments of %d bytes: the WAL starts at %s, not %s: %v", size, at, want, err)
		}
	}
}
