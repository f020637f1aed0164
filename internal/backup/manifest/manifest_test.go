package manifest

import (
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gocloud.dev/blob/memblob"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/store"
)

var started = time.Date(2026, 11, 23, 2, 0, 0, 0, time.UTC)

func logical(run string, completed time.Time) *Manifest {
	return &Manifest{
		Format: Format, Namespace: "shop", Backup: "nightly", Run: run, Method: "Logical", Type: "PostgreSQL", ServerVersion: "17.2",
		Started: started, Completed: completed, Compression: "zstd", Programs: map[string]string{"pg_dump": "17.2"},
		Parts: []Part{{Name: "shop.dump.zst", Database: "shop", Size: 10, RawSize: 20, SHA256: strings.Repeat("0a", 32)}},
	}
}

func physical() *Manifest {
	m := logical("base", started)
	m.Method = "Physical"
	m.Physical = &Physical{SystemIdentifier: "7300000000000000001", Timeline: 1, StartLSN: "0/2000028", EndLSN: "0/2000100",
		StartWAL: "000000010000000000000002", WALSegmentSize: 16 << 20}
	return m
}

func newStore(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.New(memblob.OpenBucket(nil), backupv1alpha1.Destination{URI: "s3://bucket/prefix"}, "shop/nightly")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s *store.Store, name, text string) {
	t.Helper()
	if _, err := s.Write(t.Context(), name, nil, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestManifest_listIsInOrderWithoutIncompleteRuns(t *testing.T) {
	s := newStore(t)
	for _, m := range []*Manifest{logical("new", started.Add(3*time.Hour)), logical("old", started.Add(time.Hour)), logical("mid", started.Add(2*time.Hour))} {
		if err := Write(t.Context(), s, m); err != nil {
			t.Fatal(err)
		}
	}
	put(t, s, "runs/lost/shop.dump.zst", "half a dump")
	put(t, s, "runs/broken/manifest.json", `{"format":1`)
	put(t, s, "runs/moved/manifest.json", encoded(t, logical("other", started)))
	put(t, s, "wal/1/00000002.history", "x")
	complete, damaged, err := List(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	var runs []string
	for _, m := range complete {
		runs = append(runs, m.Run)
	}
	if want := []string{"old", "mid", "new"}; !slices.Equal(runs, want) {
		t.Errorf("runs %v, want %v", runs, want)
	}
	if want := []string{"broken", "moved"}; !slices.Equal(damaged, want) {
		t.Errorf("damaged %v, want %v", damaged, want)
	}
	if _, err := Read(t.Context(), s, "lost"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("run without manifest: %v, want ErrNotFound", err)
	}
	if err := Delete(t.Context(), s, "mid"); err != nil {
		t.Fatal(err)
	}
	if complete, _, err = List(t.Context(), s); err != nil || len(complete) != 2 {
		t.Errorf("after Delete: %d runs, %v", len(complete), err)
	}
}

func encoded(t *testing.T, m *Manifest) string {
	t.Helper()
	raw, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestManifest_invalid(t *testing.T) {
	for name, change := range map[string]func(*Manifest){
		"newer format":         func(m *Manifest) { m.Format++ },
		"no parts":             func(m *Manifest) { m.Parts = nil },
		"part outside":         func(m *Manifest) { m.Parts[0].Name = "../../other/x" },
		"part is the manifest": func(m *Manifest) { m.Parts[0].Name = "manifest.json" },
		"part twice":           func(m *Manifest) { m.Parts = append(m.Parts, m.Parts[0]) },
		"part empty":           func(m *Manifest) { m.Parts[0].Size = 0 },
		"no checksum":          func(m *Manifest) { m.Parts[0].SHA256 = "" },
		"one segment":          func(m *Manifest) { m.Parts[0].Segments = segmentsOf(m.Parts[0].Name, 10) },
		"segments without any": func(m *Manifest) { m.Parts[0].Segments = []Segment{} },
		"segments too small":   func(m *Manifest) { m.Parts[0].Segments = segmentsOf(m.Parts[0].Name, 4, 5) },
		"segments too large":   func(m *Manifest) { m.Parts[0].Segments = segmentsOf(m.Parts[0].Name, 4, 7) },
		"segment empty":        func(m *Manifest) { m.Parts[0].Segments = segmentsOf(m.Parts[0].Name, 10, 0) },
		"segment outside":      func(m *Manifest) { m.Parts[0].Segments = segmentsOf("../x", 4, 6) },
		"segments not in order": func(m *Manifest) {
			m.Parts[0].Segments = segmentsOf(m.Parts[0].Name, 4, 6)
			slices.Reverse(m.Parts[0].Segments)
		},
		"segment without checksum": func(m *Manifest) {
			m.Parts[0].Segments = segmentsOf(m.Parts[0].Name, 4, 6)
			m.Parts[0].Segments[1].SHA256 = "0a"
		},
		"segment is a part": func(m *Manifest) {
			m.Parts = append(m.Parts, m.Parts[0])
			m.Parts[0].Segments = segmentsOf(m.Parts[0].Name, 4, 6)
			m.Parts[1].Name = m.Parts[0].Segments[1].Name
		},
		"run outside":         func(m *Manifest) { m.Run = "../x" },
		"never completed":     func(m *Manifest) { m.Completed = time.Time{} },
		"completed first":     func(m *Manifest) { m.Completed = m.Started.Add(-1) },
		"other method":        func(m *Manifest) { m.Method = "Snapshot" },
		"physical of logical": func(m *Manifest) { m.Method = "Logical" },
		"no physical":         func(m *Manifest) { m.Physical = nil },
		"timeline 0":          func(m *Manifest) { m.Physical.Timeline = 0 },
		"LSN":                 func(m *Manifest) { m.Physical.StartLSN = "0/0; rm" },
		"start WAL":           func(m *Manifest) { m.Physical.StartWAL = "../0" },
		"segment size":        func(m *Manifest) { m.Physical.WALSegmentSize = 3 << 20 },
	} {
		m := physical()
		if err := m.Validate(); err != nil {
			t.Fatal(err)
		}
		if change(m); !errors.Is(m.Validate(), ErrInvalid) {
			t.Errorf("%s: accepted", name)
		}
	}
}

// FuzzDecode: whatever a store returns, a decoded manifest is valid, names nothing outside of its run, and survives a round trip.
func FuzzDecode(f *testing.F) {
	large := physical()
	large.Parts[0].Segments = segmentsOf(large.Parts[0].Name, 4, 6)
	for _, m := range []*Manifest{logical("run", started), physical(), large} {
		raw, err := json.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	for _, text := range []string{`{}`, `[]`, `null`, `{"format":1,"parts":[{"name":"../x"}]}`, `{"format":1}{}`, "\x00"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := Decode(raw)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("error %v is not ErrInvalid", err)
			}
			return
		}
		for _, part := range m.Parts {
			for _, segment := range append(part.Segments, Segment{Name: part.Name}) {
				if strings.ContainsAny(segment.Name, "/\\\x00") || strings.HasPrefix(segment.Name, ".") {
					t.Fatalf("object %q", segment.Name)
				}
			}
		}
		raw, err = m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Decode(raw); err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("round trip: %v\n%#v\n%#v", err, m, again)
		}
	})
}
