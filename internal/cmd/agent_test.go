package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fettle-dev/fettle/internal/postgres/walfile"
)

// TestInstall: a container gets both programs, executable, or an error that names the missing one.
func TestInstall(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	install := func(to string) error {
		c := New()
		c.SetArgs([]string{"install", to})
		return c.ExecuteContext(t.Context())
	}
	to, wal := t.TempDir(), filepath.Join(filepath.Dir(own), walfile.Program)
	if err := install(to); err == nil || !strings.Contains(err.Error(), "fettle-wal must be in the folder of "+own) {
		t.Fatalf("without fettle-wal: %v", err)
	}
	if err := os.WriteFile(wal, []byte("#!wal"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(wal) })
	if err := install(to); err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]string{"fettle": own, walfile.Program: wal} {
		want, wantErr := os.Stat(from)
		got, err := os.Stat(filepath.Join(to, name))
		if err != nil || wantErr != nil || got.Size() != want.Size() || got.Mode() != 0o755 {
			t.Errorf("%s: %v, %v, %+v", name, err, wantErr, got)
		}
	}
}
