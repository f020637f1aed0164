package testpg

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/fettle-dev/fettle/internal/postgres/walfile"
)

// BuildWAL builds fettle-wal into a directory.
func BuildWAL(dir string) (program string, err error) {
	program = filepath.Join(dir, walfile.Program)
	if output, err := exec.Command("go", "build", "-o", program, "github.com/fettle-dev/fettle/cmd/fettle-wal").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", walfile.Program, err, output)
	}
	return program, os.Chmod(program, 0o755) //nolint:gosec // another user runs it
}

// WALProgram builds fettle-wal where PostgreSQL's user may run it.
func WALProgram(t testing.TB) string {
	t.Helper()
	program, err := BuildWAL(Dir(t))
	if err != nil {
		t.Fatal(err)
	}
	return program
}
