package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/recovery"
	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

// archivedServer is an external server with an archive of WAL and a base backup, in which settings run commands.
type archivedServer struct {
	*testpg.External
	archive, base, evil string
}

func newArchivedServer(t *testing.T) *archivedServer {
	t.Helper()
	ca := testpg.NewCA(t)
	a := &archivedServer{archive: testpg.Dir(t)}
	a.evil = filepath.Join(a.archive, "evil")
	a.External = testpg.NewExternal(t, ca, fmt.Sprintf("archive_mode = on\narchive_command = 'cp %%p %s/%%f'\nmax_connections = 250\n", a.archive))
	a.SQL(t, "postgres", `CREATE ROLE copier LOGIN REPLICATION PASSWORD 'x'`, `CREATE TABLE ledger (n int PRIMARY KEY)`,
		`INSERT INTO ledger SELECT generate_series(1, 10)`, fmt.Sprintf(`ALTER SYSTEM SET restore_command = 'touch %s'`, a.evil),
		fmt.Sprintf(`ALTER SYSTEM SET archive_cleanup_command = 'touch %s'`, a.evil), `ALTER SYSTEM SET recovery_target = 'immediate'`)
	a.base = filepath.Join(t.TempDir(), "base.tar")
	to, err := os.Create(a.base)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	cmd := exec.CommandContext(t.Context(), filepath.Join(testpg.Binaries(t).Dir, "pg_basebackup"), "--pgdata=-", "--format=tar", "--wal-method=none",
		"--checkpoint=fast", "--no-manifest", fmt.Sprintf("--dbname=host=localhost port=%d user=copier sslmode=require", a.Port))
	cmd.Env, cmd.Stdout, cmd.Stderr = []string{"PGPASSWORD=x"}, to, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: testpg.Credential(t)}
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return a
}

// insert adds a row in its own transaction.
func (a *archivedServer) insert(t *testing.T) {
	t.Helper()
	a.SQL(t, "postgres", `INSERT INTO ledger SELECT max(n) + 1 FROM ledger`)
}

// archived waits until all WAL is in the archive.
func (a *archivedServer) archived(t *testing.T) {
	t.Helper()
	name := a.QueryText(t, "postgres", `SELECT pg_walfile_name(pg_switch_wal())`)
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if a.QueryText(t, "postgres", `SELECT COALESCE(last_archived_wal, '') FROM pg_stat_archiver`) >= name {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s is not archived", name)
		}
	}
}

// recover restores the base backup into a new instance, up to a target.
func (a *archivedServer) recover(ctx context.Context, t *testing.T, spec databasev1alpha1.PostgreSQLRecovery) (*testpg.Instance, error) {
	t.Helper()
	i := testpg.New(t, "shop-0")
	target, err := recovery.ParseTarget(&spec)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(a.base)
	if err != nil {
		t.Fatal(err)
	}
	return i, i.Recover(ctx, server.Recovery{
		What: "backup shop", Size: info.Size(),
		Extract: func(_ context.Context, write func(io.Reader) error) error {
			from, err := os.Open(a.base)
			if err != nil {
				return err
			}
			defer from.Close()
			return write(from)
		},
		Configure: func(control server.ControlData) (config.Files, error) {
			settings := i.Settings
			settings.Minimums = control.Minimums
			return config.Render(settings)
		},
		Settings:  recovery.Plan{Timeline: 1}.Settings(target, "cp "+a.archive+"/%f %p"),
		Replaying: func() {},
	})
}

// TestRecover: each target gives exactly the rows that were committed before it.
func TestRecover(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	a := newArchivedServer(t)
	a.insert(t)
	xid := a.QueryText(t, "postgres", `WITH x AS (INSERT INTO ledger VALUES (12) RETURNING 1) SELECT pg_current_xact_id()::text FROM x`)
	a.insert(t)
	at := a.QueryText(t, "postgres", `SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`)
	a.insert(t)
	a.SQL(t, "postgres", `SELECT pg_create_restore_point('before 15')`)
	a.insert(t)
	lsn := a.QueryText(t, "postgres", `SELECT pg_current_wal_insert_lsn()::text`)
	a.insert(t)
	a.SQL(t, "postgres", `CREATE TABLE more AS SELECT generate_series(1, 20000)`)
	a.archived(t)
	for rows, spec := range map[int]databasev1alpha1.PostgreSQLRecovery{
		10: {RecoveryTarget: backupv1alpha1.RecoveryTarget{TargetImmediate: true}}, 12: {RecoveryTarget: backupv1alpha1.RecoveryTarget{TargetXID: xid}}, 13: {RecoveryTarget: backupv1alpha1.RecoveryTarget{TargetTime: at}}, 14: {RecoveryTarget: backupv1alpha1.RecoveryTarget{TargetName: "before 15"}}, 15: {RecoveryTarget: backupv1alpha1.RecoveryTarget{TargetLSN: lsn}}, 16: {},
	} {
		t.Run(strconv.Itoa(rows), func(t *testing.T) {
			i, err := a.recover(ctx, t, spec)
			if err != nil {
				t.Fatal(err)
			}
			a.wantRecovered(t, i, rows)
		})
	}
	for kind, spec := range map[server.SourceErrorKind]databasev1alpha1.PostgreSQLRecovery{
		server.TargetNotReached: {RecoveryTarget: backupv1alpha1.RecoveryTarget{TargetXID: "100000"}}, server.TargetTooEarly: {RecoveryTarget: backupv1alpha1.RecoveryTarget{TargetLSN: "0/1"}},
	} {
		i, err := a.recover(ctx, t, spec)
		if problem, ok := errors.AsType[*server.SourceError](err); !ok || problem.Kind != kind {
			t.Errorf("%+v: %v, want %s", spec, err, kind)
		}
		if state, err := i.DataState(); state != server.Empty {
			t.Errorf("%+v left data: %s, %v", spec, state, err)
		}
	}
	if _, err := os.Stat(a.evil); err == nil {
		t.Error("a command of the backup ran") // attack 46
	}
}

// wantRecovered checks the rows and the state that a recovery leaves.
func (a *archivedServer) wantRecovered(t *testing.T, i *testpg.Instance, rows int) {
	t.Helper()
	control, err := i.ControlData(t.Context())
	if err != nil || control.State != "shut down" || control.Timeline != 2 {
		t.Errorf("%+v, %v", control, err)
	}
	if standby, err := i.IsStandby(); standby || err != nil {
		t.Errorf("a standby: %v, %v", standby, err)
	}
	if files, _ := filepath.Glob(filepath.Join(i.DataDir(), "pg_wal", "archive_status", "00000002.history.ready")); len(files) != 1 {
		t.Error("the history of the new timeline is not marked for the archive")
	}
	i.Start(t)
	if is := queryInstance(t, i, `SELECT format('%s %s %s', count(*), max(n), current_setting('restore_command')) FROM ledger`); is != fmt.Sprintf("%d %d ", rows, rows) {
		t.Errorf("%s rows and the last one, want %d", is, rows)
	}
}

func queryInstance(t *testing.T, i *testpg.Instance, query string) (value string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), fmt.Sprintf("host=%s port=%d user=postgres dbname=postgres", i.SocketDir(), i.Settings.Port))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), query).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}
