// Package testdatabases runs real database servers for tests of backups: PostgreSQL, MariaDB, and FerretDB, which speaks the protocol of
// MongoDB.
package testdatabases

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

// programsVariable is the environment variable with the directory of ferretdb, mongodump and mongorestore.
const programsVariable = "FETTLE_DATABASES"

// startTimeout bounds the start of a server.
const startTimeout = time.Minute

// The login of all servers. It owns all databases, is no superuser, and needs every kind of quoting.
const (
	User     = "app"
	Password = `p@ss: w/o'rd"#\n%41$`
)

// Server is a database server on loopback. It ends with the test.
type Server interface {
	Type() backupv1alpha1.ServerType
	Port() int32
	// Create creates an empty database.
	Create(t testing.TB, database string)
	// Fill writes rows with all that is hard to dump. marker is a file that a command in the rows would create.
	Fill(t testing.TB, database, marker string)
	// Checksum is one of all rows and of the names of all other objects.
	Checksum(t testing.TB, database string) string
}

// Path returns the directories of the dump programs, for PATH.
func Path(t testing.TB) string {
	t.Helper()
	return testpg.Binaries(t).Dir + ":" + programs(t) + ":/usr/bin:/bin"
}

func programs(t testing.TB) string {
	t.Helper()
	dir := os.Getenv(programsVariable)
	if dir == "" {
		t.Fatalf("tests need FerretDB and MongoDB's programs: export %s=$(hack/databases.sh)", programsVariable)
	}
	return dir
}

// start starts a program, and waits until ready succeeds. The thread that starts the program lives as long as the program, because of
// Pdeathsig.
func start(t testing.TB, cmd *exec.Cmd, ready func(context.Context) error) {
	t.Helper()
	log, name := &testpg.Log{}, filepath.Base(cmd.Path)
	cmd.Stdout, cmd.Stderr = log, log
	started, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("log of %s:\n%s", name, log)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ended:
			t.Fatalf("%s ended: %v\n%s", name, err, log)
		case <-ctx.Done():
			t.Fatalf("%s does not start: %v\n%s", name, err, log)
		}
	}
}

// command is a program that runs as the user of testpg.Credential.
func command(t testing.TB, dir, name string, arguments ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(name, arguments...) //nolint:gosec,noctx // a database server; the test ends it
	cmd.Dir, cmd.Env = dir, []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + dir, "LC_ALL=C.UTF-8"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: testpg.Credential(t), Setsid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// mkdir creates a directory for the user of testpg.Credential.
func mkdir(t testing.TB, elements ...string) string {
	t.Helper()
	dir := filepath.Join(elements...)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if c := testpg.Credential(t); c != nil {
		if err := os.Chown(dir, int(c.Uid), int(c.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
