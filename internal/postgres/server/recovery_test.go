package server_test

import (
	"os"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

// startupProcess matches the title of the process that replays WAL, after the name of the instance.
var startupProcess = regexp.MustCompile(`-\d: startup`)

// startupPID is the PID of the startup process, 0 if there is none.
func startupPID(t *testing.T, i *testpg.Instance) int {
	t.Helper()
	for _, text := range processesIn(t, i) {
		title, _ := os.ReadFile("/proc/" + text + "/cmdline")
		if pid, err := strconv.Atoi(text); err == nil && startupProcess.Match(title) {
			return pid
		}
	}
	return 0
}

// TestRecoveryCPUTime: crash recovery uses CPU time while it makes progress, and none while it hangs.
func TestRecoveryCPUTime(t *testing.T) {
	ctx := bounded(t)
	i := testpg.NewRunning(t, "startup-0")
	conn := openConn(t, i)
	for _, statement := range []string{
		"CREATE TABLE many (n int, text text)", "CHECKPOINT",
		"INSERT INTO many SELECT n, repeat('x', 100) FROM generate_series(1, 600000) n", "UPDATE many SET n = n + 1",
	} {
		_, err := conn.Exec(ctx, statement)
		must(t, err)
	}
	must(t, i.Process().Kill(ctx))
	p, err := i.Server.Start(ctx)
	must(t, err)
	t.Cleanup(func() { _ = p.Kill(t.Context()) })
	waitFor(t, "recovery to advance", func() bool { return p.RecoveryCPUTime() >= 50*time.Millisecond })
	pid := startupPID(t, i)
	if pid == 0 {
		t.Fatal("recovery was over before it could be stopped: it needs more to do")
	}
	must(t, syscall.Kill(pid, syscall.SIGSTOP))
	time.Sleep(100 * time.Millisecond)
	before := p.RecoveryCPUTime()
	time.Sleep(time.Second)
	if after := p.RecoveryCPUTime(); after-before > 20*time.Millisecond {
		t.Errorf("%s were used while recovery was stopped", after-before)
	}
	must(t, syscall.Kill(pid, syscall.SIGCONT))
	must(t, p.WaitReady(ctx))
}

// TestRecoveryCPUTime_idleStandby: a standby that waits for WAL uses almost no CPU time.
func TestRecoveryCPUTime_idleStandby(t *testing.T) {
	ca := testpg.NewCA(t)
	primary := ca.Primary(t, "shop-0")
	standby := ca.Standby(t, "shop-1", primary)
	primary.Stop(t)
	time.Sleep(time.Second)
	if startupPID(t, standby) == 0 {
		t.Fatal("no process replays WAL")
	}
	before := standby.Process().RecoveryCPUTime() // 0 is possible: it counts in steps of 10 ms
	const watched = 8 * time.Second
	time.Sleep(watched)
	// The agent takes 50 ms per minute for progress.
	if used := standby.Process().RecoveryCPUTime() - before; used > 20*time.Millisecond {
		t.Errorf("%s were used in %s, after %s", used, watched, before)
	}
}
