// Package postgres runs complete clusters on one machine: real PostgreSQL servers, each with an agent as a separate
// process, against a real API server, with proxies between them that can be cut. Only the API server of Kubernetes runs:
// the tests act as operator and kubelet.
package postgres

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/fettle-dev/fettle/internal/cmd"
	"github.com/fettle-dev/fettle/internal/testenv"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

var (
	env *testenv.Env
	// program is a copy of the test binary that any user may run, with fettle-wal beside it. With the argument "agent" it is an agent.
	// FETTLE_PG_PROGRAM sets another program, such as that of the image.
	program string
	// networks counts the clusters of this process. Each has its own loopback addresses.
	networks atomic.Int32
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "agent" {
		os.Exit(runProgram())
	}
	dir, err := os.MkdirTemp("", "fettle-postgres-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	program = filepath.Join(dir, "fettle")
	code := 1
	if err := prepare(dir); err != nil {
		fmt.Fprintln(os.Stderr, "test/postgres:", err)
	} else {
		code = m.Run()
	}
	if env != nil {
		_ = env.Stop()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// runProgram is main of the agent. The test binary itself is the program, so that it always has the current code.
func runProgram() int {
	if err := cmd.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "fettle:", err)
		return cmd.ExitCode(err)
	}
	return 0
}

func prepare(dir string) error {
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres"); len(found) == 0 {
		return errors.New("these tests need PostgreSQL: install the package postgresql (Debian), without its service")
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if other := os.Getenv("FETTLE_PG_PROGRAM"); other != "" {
		self = other
	}
	if output, err := exec.Command("cp", self, program).CombinedOutput(); err != nil {
		return fmt.Errorf("copy the program: %w: %s", err, output)
	}
	if _, err := testpg.BuildWAL(dir); err != nil {
		return err
	}
	started, err := testenv.Start(testenv.Options{Fast: true})
	env = started
	return err
}
