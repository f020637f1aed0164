package server_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

func TestClone_unreachableSourceLeavesNothing(t *testing.T) {
	ctx := bounded(t)
	ca := testpg.NewCA(t)
	i := testpg.New(t, "shop-1")
	source := server.Source{Upstream: ca.Upstream(testpg.New(t, "shop-0")), ApplicationName: "shop-1"}
	err := i.Clone(ctx, source)
	if err == nil || !strings.Contains(err.Error(), "Connection refused") {
		t.Errorf("clone of a server that is down: %v", err)
	}
	for _, dir := range []string{i.DataDir(), i.CloneDir()} {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is there: %v", dir, err)
		}
	}
}

// TestClone_interrupted cancels a base backup: there is no data directory, and the next clone is complete.
func TestClone_interrupted(t *testing.T) {
	ctx := bounded(t)
	ca := testpg.NewCA(t)
	primary := ca.Primary(t, "shop-0")
	i := testpg.New(t, "shop-1")
	slow := ca.Source(primary, "shop-1")
	slow.MaxRate = 256
	short, cancel := context.WithCancel(ctx)
	result := make(chan error)
	go func() { result <- i.Clone(short, slow) }()
	waitFor(t, "the copy to begin", func() bool {
		_, err := os.Stat(filepath.Join(i.CloneDir(), "base"))
		return err == nil
	})
	if content, _ := i.DataState(); content != server.Empty {
		t.Errorf("in the middle of a copy: %s", content)
	}
	cancel()
	if err := <-result; err == nil {
		t.Fatal("an interrupted copy was a success")
	}
	if content, _ := i.DataState(); content != server.Empty {
		t.Errorf("after an interrupted copy: %s", content)
	}
	// As left behind by a killed agent.
	must(t, os.MkdirAll(filepath.Join(i.CloneDir(), "base"), 0o700))
	must(t, i.Clone(ctx, ca.Source(primary, "shop-1")))
	if standby, err := i.IsStandby(); err != nil || !standby {
		t.Errorf("a clone that is no standby: %v, %v", standby, err)
	}
}

// TestClone_slowDisk stops pg_basebackup for longer than the source's wal_sender_timeout.
func TestClone_slowDisk(t *testing.T) {
	ctx := bounded(t)
	ca := testpg.NewCA(t)
	primary := ca.Primary(t, "shop-0")
	primary.Settings.Parameters["wal_sender_timeout"] = "1s"
	primary.Configure(t)
	i := testpg.New(t, "shop-1")
	slow := ca.Source(primary, "shop-1")
	slow.MaxRate = 8 << 10
	result := make(chan error)
	go func() { result <- i.Clone(ctx, slow) }()
	var copying []int
	waitFor(t, "the copy to begin", func() bool {
		copying = processes(t, "--pgdata="+i.CloneDir())
		_, err := os.Stat(filepath.Join(i.CloneDir(), "base"))
		return err == nil && len(copying) == 2 // one for the data, one for the WAL
	})
	for _, pid := range copying {
		must(t, syscall.Kill(pid, syscall.SIGSTOP))
	}
	time.Sleep(3 * time.Second)
	for _, pid := range copying {
		must(t, syscall.Kill(pid, syscall.SIGCONT))
	}
	must(t, <-result)
}

// processes are the PIDs of processes with an argument.
func processes(t *testing.T, argument string) (pids []int) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, path := range paths {
		content, _ := os.ReadFile(path) // it may have ended
		if slices.Contains(strings.Split(string(content), "\x00"), argument) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			must(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}
