package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-dev/fettle/internal/postgres/election"
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

// TestGap holds which timelines a standby need not know the history of.
func TestGap(t *testing.T) {
	history := []election.Fork{{Timeline: 1}, {Timeline: 2}, {Timeline: 5}}
	for _, c := range []struct {
		name   string
		change func(own *election.Server, lease *election.Lease)
		want   []uint32
	}{
		{"a jump", func(*election.Server, *election.Lease) {}, []uint32{3, 4, 6, 7}},
		{"it is there", func(own *election.Server, _ *election.Lease) { own.Position.Timeline = 8 }, nil},
		{"no jump", func(own *election.Server, _ *election.Lease) { own.Position.Timeline = 7 }, nil},
		{"it is further", func(own *election.Server, _ *election.Lease) { own.Position.Timeline = 9 }, nil},
		{"it is down", func(own *election.Server, _ *election.Lease) { own.Process = election.Down }, nil},
		{"it is the primary", func(own *election.Server, _ *election.Lease) { own.Role = election.Primary }, nil},
		{"it follows another", func(own *election.Server, _ *election.Lease) { own.Upstream = "db-2" }, nil},
		{"it follows nobody, and nobody was primary", func(own *election.Server, lease *election.Lease) { own.Upstream, lease.Primary = "", "" }, nil},
	} {
		own := election.Server{Process: election.Up, Role: election.Standby, Upstream: "db-0", Position: election.Position{Timeline: 2}}
		lease := election.Lease{Primary: "db-0", End: election.Position{Timeline: 8}, History: history}
		c.change(&own, &lease)
		if diff := cmp.Diff(c.want, gap(&own, &lease)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}
