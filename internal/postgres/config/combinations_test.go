package config

import (
	"strings"
	"testing"
)

// TestCheckCombinations has valid values with which a server would not start in combination.
func TestCheckCombinations(t *testing.T) {
	for _, c := range []struct {
		name    string
		wanted  map[string]string
		segment int
		want    string // a part of what is said; empty for nothing
	}{
		{"nothing", nil, 0, ""},
		{"the least", map[string]string{"max_connections": "20", "superuser_reserved_connections": "19"}, 0, ""},
		{"all are kept back", map[string]string{"max_connections": "20", "superuser_reserved_connections": "20"}, 0, "max_connections"},
		{"more than the default", map[string]string{"superuser_reserved_connections": "100"}, 0, "max_connections"},
		{"two segments", map[string]string{"min_wal_size": "32MB", "max_wal_size": "32"}, 16, ""},
		{"less than two segments", map[string]string{"min_wal_size": "31MB"}, 16, "min_wal_size"},
		{"less than two usual segments", map[string]string{"max_wal_size": "20MB"}, 0, "max_wal_size"},
		{"less than two large segments", map[string]string{"Max_WAL_Size": "1GB"}, 1024, "max_wal_size"},
		{"large segments alone", nil, 1024, ""},
		{"no number", map[string]string{"max_connections": "many"}, 0, ""},
	} {
		for major := MinMajor; major <= MaxMajor; major++ {
			err := CheckCombinations(major, c.wanted, c.segment)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, version %d: %v", c.name, major, err)
			}
		}
	}
}

// TestRender_largeWALSegments: a server with large WAL segments needs room for two of them.
func TestRender_largeWALSegments(t *testing.T) {
	for _, c := range []struct {
		segment   int64
		asked     string
		low, high string
	}{
		{0, "", "min_wal_size = '80MB'", "max_wal_size = '1GB'"},
		{16 << 20, "20MB", "min_wal_size = '32MB'", "max_wal_size = '1GB'"},
		{64 << 20, "", "min_wal_size = '128MB'", "max_wal_size = '1GB'"},
		{1 << 30, "100MB", "min_wal_size = '2048MB'", "max_wal_size = '2048MB'"},
	} {
		s := Settings{Major: 16, DataDir: "/d", ConfigDir: "/c", SocketDir: "/s", ClusterName: "pg-0", Instances: 1, WALSegment: c.segment}
		if c.asked != "" {
			s.Parameters = map[string]string{"min_wal_size": c.asked}
		}
		files, err := Render(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{c.low, c.high} {
			if !strings.Contains(files[ConfFile], line+"\n") {
				t.Errorf("segments of %d bytes, %q asked: no %s", c.segment, c.asked, line)
			}
		}
	}
}
