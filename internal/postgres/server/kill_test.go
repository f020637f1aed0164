package server_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

// writer never reaches a point where it would notice the death of the postmaster.
const writer = `DO $$ BEGIN
  LOOP
    INSERT INTO written VALUES (DEFAULT);
    COMMIT;
  END LOOP;
END $$`

// program is a shell that a backend starts.
const program = `COPY (SELECT 1) TO PROGRAM 'while :; do echo x >> grows; sleep 0.01; done'`

func openConn(t *testing.T, i *testpg.Instance) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), "host="+i.SocketDir()+" port="+itoa(i.Settings.Port)+" user=postgres dbname=postgres")
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// fingerprint is a checksum of all files of the data directory.
func fingerprint(t *testing.T, dir string) string {
	t.Helper()
	sum := sha256.New()
	if err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		sum.Write([]byte(path))
		sum.Write(content)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// startWriters starts sessions and a program that write until they are killed.
func startWriters(t *testing.T, i *testpg.Instance) {
	t.Helper()
	if _, err := openConn(t, i).Exec(t.Context(), "CREATE TABLE written (n bigserial)"); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{writer, writer, program} {
		conn := openConn(t, i)
		go func() {
			_, _ = conn.Exec(context.WithoutCancel(t.Context()), statement, pgx.QueryExecModeSimpleProtocol)
		}()
	}
	conn := openConn(t, i)
	grows := filepath.Join(i.DataDir(), "grows")
	waitFor(t, "the writers", func() bool {
		var rows int
		must(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM written").Scan(&rows))
		_, err := os.Stat(grows)
		return rows > 100 && err == nil
	})
}

func waitFor(t *testing.T, what string, yes func() bool) {
	t.Helper()
	deadline := time.Now().Add(90 * time.Second)
	for !yes() {
		if time.Now().After(deadline) {
			t.Fatal("waited too long for " + what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// processesIn are the processes whose working directory is the data directory, found independently of the package.
func processesIn(t *testing.T, i *testpg.Instance) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	must(t, err)
	var found []string
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == i.DataDir() {
			found = append(found, strings.Split(link, "/")[2])
		}
	}
	return found
}

// TestKill_endsAllWriters kills a postmaster with busy backends, which do not notice its death.
func TestKill_endsAllWriters(t *testing.T) {
	i := testpg.NewRunning(t, "kill-0")
	startWriters(t, i)
	if len(processesIn(t, i)) < 5 {
		t.Fatalf("only %v work", processesIn(t, i))
	}
	must(t, i.Process().Kill(bounded(t)))
	if left := processesIn(t, i); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	before := fingerprint(t, i.DataDir())
	time.Sleep(500 * time.Millisecond)
	if fingerprint(t, i.DataDir()) != before {
		t.Error("something still writes")
	}
	i.Start(t)
}

// TestKillLeftovers_ofPreviousAgent is what a new agent finds after the previous agent and the postmaster were killed.
func TestKillLeftovers_ofPreviousAgent(t *testing.T) {
	ctx := bounded(t)
	i := testpg.NewRunning(t, "left-0")
	startWriters(t, i)
	must(t, os.WriteFile(filepath.Join(i.DataDir(), "notes"), nil, 0o600))
	kill(t, i.Process().PID())
	<-i.Process().Done()
	if len(processesIn(t, i)) == 0 {
		t.Fatal("nothing outlived the postmaster: the test proves nothing")
	}
	if _, err := i.Server.Start(ctx); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("start while processes use the data directory: %v", err)
	}
	if err := i.Remove(ctx); err == nil {
		t.Error("the data directory was removed while processes use it")
	}
	must(t, i.KillLeftovers(ctx))
	if left := processesIn(t, i); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	i.Start(t)
}

// TestStart_reusedPID starts although postmaster.pid names a running process, as in a new container.
func TestStart_reusedPID(t *testing.T) {
	i := testpg.NewRunning(t, "again-0")
	must(t, i.Process().Kill(bounded(t)))
	path := filepath.Join(i.DataDir(), "postmaster.pid")
	content, err := os.ReadFile(path)
	must(t, err)
	_, rest, _ := strings.Cut(string(content), "\n")
	// The process must run as PostgreSQL's user: PostgreSQL ignores those of other users.
	other := exec.CommandContext(bounded(t), "sleep", "60")
	other.SysProcAttr = &syscall.SysProcAttr{Credential: testpg.Credential(t)}
	must(t, other.Start())
	defer func() {
		must(t, other.Process.Kill())
		_ = other.Wait()
	}()
	must(t, os.WriteFile(path, []byte(itoa(other.Process.Pid)+"\n"+rest), 0o600))
	i.Start(t)
}
