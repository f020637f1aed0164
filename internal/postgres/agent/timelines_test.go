package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A reservation holds while the server runs, and is gone when it starts again: a standby that finds one would try to
// recover to a timeline that leads nowhere.
func TestReservationsEndWithTheServer(t *testing.T) {
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
	if err := reserve(data, 2, 5); err != nil {
		t.Fatal(err)
	}
	want := []string{"00000003.history", "00000004.history", "00000005.history", "00000006.history"}
	if diff := cmp.Diff(want, files()); diff != "" {
		t.Errorf("reserved: %s", diff)
	}
	highest, err := release(data)
	if err != nil || highest != 3 {
		t.Errorf("highest %d, %v", highest, err)
	}
	if diff := cmp.Diff(want[:1], files()); diff != "" {
		t.Errorf("released: %s", diff)
	}
}
