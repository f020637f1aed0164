package wal

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLSN(t *testing.T) {
	for text, want := range map[string]LSN{"0/0": 0, "16/B374D848": 0x16B374D848, "FFFFFFFF/FFFFFFFF": ^LSN(0)} {
		got, err := ParseLSN(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s: %x, %s, %v", text, uint64(got), got, err)
		}
	}
	for _, text := range []string{"", "0", "0/", "/0", "0/0/0", "G/0", "-1/0", "100000000/0"} {
		if _, err := ParseLSN(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestHistory(t *testing.T) {
	got, err := ParseHistory([]byte("1\t0/3000148\tno recovery target specified\n\n# a comment\n3\t0/5000060\tbefore 2026\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := History{{Timeline: 1, SwitchPoint: 0x3000148}, {Timeline: 3, SwitchPoint: 0x5000060}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for text, want := range map[string]string{"1": "line 1", "x\t0/1": "not a timeline", "1\tx": "line 1", "2\t0/1\n1\t0/2": "line 2: timeline 1 does not follow 2"} {
		if _, err := ParseHistory([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: want an error with %q, got %v", text, want, err)
		}
	}
	if got := HistoryFile(0x1F); got != "0000001F.history" {
		t.Error(got)
	}
}

func TestSegmentFile(t *testing.T) {
	cases := []struct {
		at   LSN
		size int64
		want string
	}{
		{0x1000000, 16 << 20, "000000020000000000000001"},
		{0x16B374D848, 16 << 20, "0000000200000016000000B3"},
		{0x16B374D848, 1 << 20, "000000020000001600000B37"},
		{0x16B374D848, 1 << 30, "000000020000001600000002"},
	}
	for _, tc := range cases {
		if got := segmentFile(2, tc.at, tc.size); got != tc.want {
			t.Errorf("%s: want %s, got %s", tc.at, tc.want, got)
		}
	}
}
