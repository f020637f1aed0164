package server_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestServer_lifecycle(t *testing.T) {
	ctx := bounded(t)
	i := testpg.New(t, "life-0")
	wantDataState(t, i, server.Empty)
	_, err := i.Server.Start(ctx)
	wantError(t, "start without data", err, "is empty")
	// Left behind by an interrupted run.
	must(t, os.MkdirAll(filepath.Join(i.CloneDir(), "base"), 0o700))
	must(t, i.Init(ctx, server.InitOptions{}))
	if _, err := os.Stat(i.CloneDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder for clones is left: %v", err)
	}
	wantDataState(t, i, server.Complete)
	wantError(t, "a second Init", i.Init(ctx, server.InitOptions{}), "already")

	p := i.Start(t)
	before, err := i.ControlData(ctx)
	must(t, err)
	if before.State != "in production" || before.Timeline != 1 || len(before.SystemID) < 15 {
		t.Errorf("control data of a new server: %+v", before)
	}
	_, err = i.Server.Start(ctx)
	wantError(t, "a second server on the same data", err, "in use")
	wantError(t, "removal under a server", i.Remove(ctx), "stop PostgreSQL first")
	must(t, p.Stop(ctx, server.Fast))
	if got := p.Exit().String(); got != "exited with code 0" {
		t.Errorf("after a fast stop: %s", got)
	}
	after, err := i.ControlData(ctx)
	must(t, err)
	if after.State != "shut down" || after.SystemID != before.SystemID || after.Checkpoint <= before.Checkpoint {
		t.Errorf("control data after the stop: %+v, before: %+v", after, before)
	}
	must(t, i.Remove(ctx))
	must(t, i.Remove(ctx))
	wantDataState(t, i, server.Empty)
}

func wantDataState(t *testing.T, i *testpg.Instance, want server.DataState) {
	t.Helper()
	if got, err := i.DataState(); got != want || err != nil {
		t.Errorf("want %s, got %s, %v", want, got, err)
	}
}

func wantError(t *testing.T, what string, err error, why string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("%s: want an error with %q, got %v", what, why, err)
	}
}

func TestStop_modes(t *testing.T) {
	ctx := bounded(t)
	i := testpg.NewRunning(t, "stop-0")
	for _, mode := range []server.StopMode{server.Fast, server.Immediate} {
		must(t, i.Process().Stop(ctx, mode))
		i.Start(t)
	}
	if err := i.Process().Stop(ctx, "gently"); err == nil {
		t.Error("an unknown mode was let through")
	}
	// A stopped postmaster does not react to a shutdown. Fence kills it.
	must(t, syscall.Kill(i.Process().PID(), syscall.SIGSTOP))
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if err := i.Process().Stop(short, server.Immediate); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stop of a hung postmaster: %v", err)
	}
	must(t, i.Process().Fence(ctx, 100*time.Millisecond))
	if exit := i.Process().Exit(); exit.Signal != syscall.SIGKILL || exit.Code != -1 {
		t.Errorf("after the fence: %+v", exit)
	}
	// It starts again after any crash, even on a volume with an fsGroup.
	must(t, os.Chmod(i.DataDir(), os.ModeSetgid|0o770))
	i.Start(t)
}

func TestProcess_crashClosesDone(t *testing.T) {
	i := testpg.NewRunning(t, "crash-0")
	must(t, syscall.Kill(i.Process().PID(), syscall.SIGKILL))
	select {
	case <-i.Process().Done():
	case <-time.After(2 * time.Minute):
		t.Fatal("Done was not closed")
	}
	if got := i.Process().Exit().String(); got != "was killed by signal killed" {
		t.Error(got)
	}
}

func TestWaitReady_serverExits(t *testing.T) {
	ctx := bounded(t)
	i := testpg.NewRunning(t, "ready-0")
	i.Stop(t)
	files, err := config.Render(i.Settings)
	must(t, err)
	files[config.ConfFile] += "max_connections = 'nonsense'\n"
	if _, err := i.Server.Configure(files); err != nil {
		t.Fatal(err)
	}
	p, err := i.Server.Start(ctx)
	must(t, err)
	if err := p.WaitReady(ctx); err == nil || !strings.Contains(err.Error(), "exited with code 1") {
		t.Errorf("with a bad configuration: %v", err)
	}
}

func TestConfigure_writesOnlyChanges(t *testing.T) {
	i := testpg.New(t, "conf-0")
	files, err := config.Render(i.Settings)
	must(t, err)
	for n, want := range []bool{true, false} {
		if changed, err := i.Server.Configure(files); err != nil || changed != want {
			t.Errorf("time %d: %v, %v", n+1, changed, err)
		}
	}
	files[config.HBAFile] += "# more\n"
	if changed, err := i.Server.Configure(files); err != nil || !changed {
		t.Errorf("after a change: %v, %v", changed, err)
	}
}

func TestDataState_unusable(t *testing.T) {
	ctx := bounded(t)
	major := testpg.Binaries(t).Major
	cases := map[string]struct {
		files   map[string]string
		content server.DataState
		want    string
	}{
		"foreign files":      {map[string]string{"notes.txt": "x"}, server.Unrecognized, "right volume is mounted"},
		"another version":    {map[string]string{"PG_VERSION": "9\n"}, server.Unrecognized, "belongs to PostgreSQL 9"},
		"no control file":    {map[string]string{"PG_VERSION": itoa(major) + "\n"}, server.Incomplete, "no control file"},
		"empty control file": {map[string]string{"PG_VERSION": itoa(major) + "\n", "global/pg_control": ""}, server.Incomplete, "no control file"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			i := testpg.New(t, "broken-0")
			for file, content := range tc.files {
				path := filepath.Join(i.DataDir(), file)
				must(t, os.MkdirAll(filepath.Dir(path), 0o700))
				must(t, os.WriteFile(path, []byte(content), 0o600))
			}
			content, err := i.DataState()
			if content != tc.content || err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("want an error with %q, got %s, %v", tc.want, content, err)
			}
			if err := i.Init(ctx, server.InitOptions{}); err == nil {
				t.Error("it was written over")
			}
			if _, err := i.Server.Start(ctx); err == nil {
				t.Error("it was started")
			}
		})
	}
}

func TestStart_resetsAlterSystem(t *testing.T) {
	ctx := bounded(t)
	i := testpg.NewRunning(t, "alter-0")
	i.Stop(t)
	path := filepath.Join(i.DataDir(), "postgresql.auto.conf")
	must(t, os.WriteFile(path, []byte("archive_mode = 'on'\narchive_command = 'touch /tmp/never'\n"), 0o600))
	i.Start(t)
	must(t, i.Client(t).Query(ctx, "SELECT name FROM pg_file_settings WHERE sourcefile LIKE '%/postgresql.auto.conf'", func(row pgx.CollectableRow) error {
		t.Errorf("settings of elsewhere: %s", row.RawValues()[0])
		return nil
	}))
	if !strings.Contains(i.Log.String(), "removed archive_command from postgresql.auto.conf") {
		t.Error("the log does not tell")
	}
}

func TestNew(t *testing.T) {
	if _, err := server.New(server.Options{Volume: "data", RunDir: "/run/x", Credential: testpg.Credential(t)}); err == nil {
		t.Error("a relative folder was let through")
	}
	if os.Getuid() == 0 {
		if _, err := server.New(server.Options{Volume: t.TempDir(), RunDir: t.TempDir()}); err == nil {
			t.Error("root was let through")
		}
	}
}

func TestFindBinaries(t *testing.T) {
	t.Cleanup(server.SetBinDirs(t.TempDir()))
	t.Setenv("PATH", t.TempDir())
	if _, err := server.FindBinaries(t.Context()); err == nil || !strings.Contains(err.Error(), "official postgres image") {
		t.Errorf("no installation: %v", err)
	}
	if _, err := server.BinariesIn(t.Context(), t.TempDir()); err == nil {
		t.Error("an empty folder has programs")
	}
}

func TestDisk(t *testing.T) {
	i := testpg.New(t, "disk-0")
	if disk, err := i.Disk(); err != nil || disk.Size <= 0 || disk.Free <= 0 || disk.Free > disk.Size {
		t.Errorf("%+v, %v", disk, err)
	}
}

func itoa(n int) string { return strconv.Itoa(n) }

func kill(t *testing.T, pid int) {
	t.Helper()
	must(t, syscall.Kill(pid, syscall.SIGKILL))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestInit_icuLocale(t *testing.T) {
	ctx := bounded(t)
	i := testpg.New(t, "icu-0")
	err := i.Init(ctx, server.InitOptions{ICULocale: "en-US"})
	if testpg.Binaries(t).Major < 15 {
		wantError(t, "an old version", err, "use version 15 or later")
		return
	}
	must(t, err)
	i.Start(t)
	var provider string
	must(t, openConn(t, i).QueryRow(ctx, "SELECT datlocprovider::text FROM pg_database WHERE datname = 'postgres'").Scan(&provider))
	if provider != "i" {
		t.Errorf("the provider is %q", provider)
	}
}
