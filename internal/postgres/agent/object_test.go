package agent

import (
	"path/filepath"
	"testing"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/server"
)

// TestObjectStore_fromVolume starts with what an earlier life left on the volume: damage is no reason not to start, another PostgreSQL's
// volume is.
func TestObjectStore_fromVolume(t *testing.T) {
	kept := func(name string) string { return `{"metadata":{"name":"` + name + `"},"spec":{"version":"15"}}` }
	for _, c := range []struct {
		name, content string
		version       string
		fails         bool
	}{
		{"good", kept("db"), "15", false},
		{"of no bytes", "", "", false},
		{"of zeros", "\x00\x00\x00\x00", "", false},
		{"half", kept("db")[:20], "", false},
		{"of another PostgreSQL", kept("other"), "", true},
	} {
		s := &objectStore{
			name: "db", file: filepath.Join(t.TempDir(), "fettle", "postgresql.json"), log: NewLogger(discard{}, nil), changed: func() {},
			valid: func(*databasev1alpha1.PostgreSQL) error { return nil },
		}
		if err := s.Load(); err != nil {
			t.Errorf("%s: there is no file yet: %v", c.name, err)
		}
		if err := server.WriteFile(s.file, []byte(c.content)); err != nil {
			t.Fatal(err)
		}
		err := s.Load()
		version := ""
		if object, _ := s.Get(); object != nil {
			version = object.Spec.Version
		}
		if (err != nil) != c.fails || version != c.version {
			t.Errorf("%s: version %q, %v", c.name, version, err)
		}
		if c.fails {
			continue
		}
		object := newObject(func(o *databasev1alpha1.PostgreSQL) { o.Spec.Version = "16" })
		s.store(object)
		if _, kept := s.Get(); kept {
			t.Errorf("%s: what the API server gave counts as of unknown age", c.name)
		}
		again := &objectStore{name: "db", file: s.file}
		if err := again.Load(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if object, kept := again.Get(); object == nil || object.Spec.Version != "16" || !kept {
			t.Errorf("%s: what was seen since is not kept: %v, %v", c.name, object, kept)
		}
	}
}
