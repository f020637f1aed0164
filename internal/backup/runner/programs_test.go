package runner_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/testenv/testdatabases"
)

// fault is a file beside a copy of this program that says how the copy fails.
const fault = "fault"

// TestMain is also a dump program that fails, if it has the name of one, and the restore_command of a temporary server.
func TestMain(m *testing.M) {
	name := filepath.Base(os.Args[0])
	if name == "fettle" {
		os.Exit(fetchWAL(os.Args))
	}
	if strings.Contains(name, "dump") {
		os.Exit(badProgram(name))
	}
	os.Exit(m.Run())
}

// badProgram runs the real program and breaks its output. The fault is empty, exit, kill or drop (before the end of the output; drop
// drops the database too), cut (the output, and exit with 0), or old (an old version).
func badProgram(name string) int {
	own, path, _ := strings.Cut(os.Getenv("PATH"), ":")
	kind, err := os.ReadFile(filepath.Join(own, fault))
	if err != nil {
		return 1
	}
	if string(kind) == "old" {
		fmt.Println(name + " (PostgreSQL) 9.6.24")
		return 0
	}
	if string(kind) == "empty" && os.Args[1] != "--version" {
		return 0
	}
	if err := os.Setenv("PATH", path); err != nil {
		return 1
	}
	program := exec.Command(name, os.Args[1:]...)
	program.Stderr = os.Stderr
	output, err := program.Output()
	if err != nil {
		return 1
	}
	if os.Args[1] == "--version" {
		_, _ = os.Stdout.Write(output)
		return 0
	}
	_, _ = os.Stdout.Write(output[:len(output)*9/10])
	switch string(kind) {
	case "exit":
		fmt.Fprintln(os.Stderr, "connection lost, password was "+testdatabases.Password)
		return 1
	case "drop":
		connection := os.Args[len(os.Args)-1] // --dbname=...
		psql := exec.Command("psql", "--no-psqlrc", connection+" dbname='postgres'", "--command=drop database gone")
		psql.Stderr = os.Stderr
		_ = psql.Run() // the test looks at the database
		return 1
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	return 0
}

// breakPrograms puts failing dump programs first in PATH.
func breakPrograms(t *testing.T, kind string) {
	t.Helper()
	dir := t.TempDir()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pg_dump", "mariadb-dump", "mongodump"} {
		if err := os.Symlink(own, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, fault), []byte(kind), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// testFailingPrograms: a run whose program fails is not a success, whatever the program wrote.
func (f *fixture) testFailingPrograms(t *testing.T) {
	for kind, reason := range map[string]string{
		"exit": backupv1alpha1.ReasonDumpFailed, "kill": backupv1alpha1.ReasonDumpFailed,
		"cut": backupv1alpha1.ReasonDumpInvalid, "empty": backupv1alpha1.ReasonDumpInvalid,
	} {
		t.Run(kind, func(t *testing.T) {
			breakPrograms(t, kind)
			f.refused(t, f.backup("broken", "app"), reason, false)
		})
	}
	t.Run("missing", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		f.refused(t, f.backup("broken", "app"), backupv1alpha1.ReasonProgramMissing, true)
	})
}

func (f *fixture) testOldProgram(t *testing.T) {
	breakPrograms(t, "old")
	f.refused(t, f.backup("old-program", "app"), backupv1alpha1.ReasonProgramMissing, true)
}
