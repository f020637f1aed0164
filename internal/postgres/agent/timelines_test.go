package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-dev/fettle/internal/postgres/election"
)

// A reservation holds while the server runs, and is gone when it starts again: a standby that finds one would try to
// recover to a timeline that leads nowhere.
func TestReservations_removedAfterExit(t *testing.T) {
	data := t.TempDir()
	folder := filepath.Join(data, "pg_wal")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files := func() (names []string) {
		t.Helper()
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	write("00000003.history", "2\t0/3000000\tno recovery target specified\n")
	write("00000006.history", reservation[:7])
	if err := reserveSkippedTimelines(data, 2, 5); err != nil {
		t.Fatal(err)
	}
	want := []string{"00000003.history", "00000004.history", "00000005.history", "00000006.history"}
	if diff := cmp.Diff(want, files()); diff != "" {
		t.Errorf("reserved: %s", diff)
	}
	highest, err := removeReservations(data)
	if err != nil || highest != 3 {
		t.Errorf("highest %d, %v", highest, err)
	}
	if diff := cmp.Diff(want[:1], files()); diff != "" {
		t.Errorf("released: %s", diff)
	}
}

// TestFillGaps has a primary reserve what was left out, and archive what it left out itself once its own history is archived.
func TestFillGaps(t *testing.T) {
	data := t.TempDir()
	folder := filepath.Join(data, "pg_wal")
	if err := os.MkdirAll(filepath.Join(folder, "archive_status"), 0o700); err != nil {
		t.Fatal(err)
	}
	touch := func(names ...string) {
		t.Helper()
		for _, name := range names {
			if err := os.WriteFile(filepath.Join(folder, name), []byte("content of "+name), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	names := func() string {
		t.Helper()
		paths, err := filepath.Glob(filepath.Join(folder, "archive_status", "*.ready"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range paths {
			paths[i] = filepath.Base(paths[i])[6:8]
		}
		return strings.Join(paths, " ")
	}
	history := []election.TimelineSwitch{{Timeline: 1}, {Timeline: 3}}
	fill := func(want string, done bool) {
		t.Helper()
		got, err := fillGaps(data, 7, history)
		if err != nil || got != done || names() != want {
			t.Errorf("to archive %q, done %v, %v; want %q, %v", names(), got, err, want, done)
		}
	}
	touch("00000003.history", "00000005.history", "00000007.history")
	fill("", true)
	if content, err := os.ReadFile(filepath.Join(folder, "00000002.history")); err != nil || string(content) != reservation {
		t.Errorf("timeline 2 is not reserved: %q, %v", content, err)
	}
	touch("archive_status/00000007.history.ready")
	fill("07", false)
	if err := os.Rename(filepath.Join(folder, "archive_status/00000007.history.ready"), filepath.Join(folder, "archive_status/00000007.history.done")); err != nil {
		t.Fatal(err)
	}
	fill("04 06", true) // 5 was used by another instance
	if highest, err := removeReservations(data); err != nil || highest != 7 {
		t.Errorf("highest %d, %v", highest, err)
	}
	if _, err := os.Stat(filepath.Join(folder, "00000006.history")); err != nil {
		t.Errorf("a reservation that a standby may ask for is gone: %v", err)
	}
}
