package runner

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"gocloud.dev/blob/memblob"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/job"
	"github.com/fettle-dev/fettle/internal/backup/manifest"
	"github.com/fettle-dev/fettle/internal/backup/progress"
	"github.com/fettle-dev/fettle/internal/backup/recovery"
	"github.com/fettle-dev/fettle/internal/backup/retention"
	"github.com/fettle-dev/fettle/internal/backup/store"
	"github.com/fettle-dev/fettle/internal/backup/walarchive"
	"github.com/fettle-dev/fettle/internal/postgres/config"
	pgserver "github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

// noReport reports nothing.
type noReport struct{}

func (noReport) Progress(context.Context, backupv1alpha1.Progress) error { return nil }
func (noReport) Result(context.Context, backupv1alpha1.RunResult) error  { return nil }

// baseFixture is a primary that archives its WAL into a store.
type baseFixture struct {
	t       *testing.T
	ca      *testpg.CA
	primary *testpg.Instance
	waldir  string
	store   *store.Store
	root    string
}

func newBaseFixture(t *testing.T) *baseFixture {
	t.Helper()
	f := &baseFixture{t: t, ca: testpg.NewCA(t), waldir: testpg.Dir(t), root: t.TempDir()}
	var err error
	f.store, err = store.New(memblob.OpenBucket(nil), backupv1alpha1.Destination{URI: "s3://bucket"}, "shop/db")
	if err != nil {
		t.Fatal(err)
	}
	f.primary = testpg.New(t, "db-0")
	f.ca.EnableTLS(f.primary)
	f.primary.Settings.ArchiveCommand = "cp %p " + f.waldir + "/%f"
	if err := f.primary.Init(t.Context(), pgserver.InitOptions{WALSegmentSize: 1}); err != nil {
		t.Fatal(err)
	}
	f.primary.Start(t)
	if err := f.primary.Client(t).Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(f.root, job.DirReplication)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{config.ReplicationUser + ".crt": "tls.crt", config.ReplicationUser + ".key": "tls.key", "ca.crt": "ca.crt"} {
		content, err := os.ReadFile(f.ca.File(from))
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, to), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func (f *baseFixture) connect() *pgx.Conn {
	f.t.Helper()
	conn, err := pgx.Connect(f.t.Context(), fmt.Sprintf("host=%s port=%d user=postgres dbname=postgres", f.primary.SocketDir(), f.primary.Settings.Port))
	if err != nil {
		f.t.Fatal(err)
	}
	return conn
}

func (f *baseFixture) query(query string, into any) {
	f.t.Helper()
	conn := f.connect()
	defer conn.Close(f.t.Context())
	if err := conn.QueryRow(f.t.Context(), query).Scan(into); err != nil {
		f.t.Fatal(err)
	}
}

func (f *baseFixture) sql(statements ...string) {
	f.t.Helper()
	conn := f.connect()
	defer conn.Close(f.t.Context())
	for _, statement := range statements {
		if _, err := conn.Exec(f.t.Context(), statement); err != nil {
			f.t.Fatal(err)
		}
	}
}

// archive stores finished WAL until the returned function is called.
func (f *baseFixture) archive(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done, stored := make(chan struct{}), map[string]bool{}
	go func() {
		defer close(done)
		// The segment that the server writes into is never complete: a backup must not wait for it.
		for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
			f.sql(`SELECT pg_logical_emit_message(true, 'test', 'write')`)
			control, err := f.primary.ControlData(ctx)
			entries, _ := os.ReadDir(f.waldir)
			for _, e := range entries {
				if err == nil && !stored[e.Name()] {
					info, _ := e.Info()
					if walarchive.IsSegment(e.Name()) && info.Size() < 1<<20 {
						continue // cp is at work
					}
					stored[e.Name()] = walarchive.New(f.store, control.SystemID).Put(ctx, e.Name(), filepath.Join(f.waldir, e.Name())) == nil
				}
			}
		}
	}()
	return func() { cancel(); <-done }
}

func (f *baseFixture) run(name string, replicas ...string) *run {
	r := &run{
		Options: Options{Report: noReport{}, Log: slog.New(slog.DiscardHandler), Temp: f.t.TempDir(), Root: f.root, SegmentSize: 1 << 20},
		config: &job.Config{Namespace: "shop", Object: name, Backup: &job.Backup{
			Name: "db", Method: backupv1alpha1.MethodPhysical, Compression: backupv1alpha1.CompressionZstd, Retention: "1c",
			Server: job.Server{Type: backupv1alpha1.ServerPostgreSQL, Host: "localhost", Port: int32(f.primary.Settings.Port), Replicas: replicas},
		}},
		store: f.store, progress: progress.New(noReport{}.Progress), secrets: &redactor{},
	}
	return r
}

// TestBase takes base backups, of which the second one makes the first one and its WAL obsolete.
func TestBase(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	f := newBaseFixture(t)
	f.sql(`CREATE TABLE filled AS SELECT generate_series(1, 10000)`)
	defer f.archive(ctx)()
	one := f.run("one", "nowhere.invalid")
	first, err := one.takeOnce(ctx, one.method())
	if err != nil {
		t.Fatal(err)
	}
	f.wantRestorable(ctx, first)
	r := f.run("two")
	second, err := r.takeOnce(ctx, r.method())
	if err != nil {
		t.Fatal(err)
	}
	f.wantOnly(ctx, r, second)
}

// wantOnly checks that the retention of one backup deletes the others, and the WAL that only they need.
func (f *baseFixture) wantOnly(ctx context.Context, r *run, kept *manifest.Manifest) {
	f.t.Helper()
	rule, err := retention.Parse("1c", nil)
	if err != nil {
		f.t.Fatal(err)
	}
	var result backupv1alpha1.RunResult
	if err := r.applyRetention(ctx, rule, &result); err != nil || result.DeletedBackups != 1 || !result.FirstRecoverableTime.Time.Equal(kept.Completed) {
		f.t.Errorf("%+v, %v", result, err)
	}
	var left []string
	list := func(name string) error { left = append(left, name); return nil }
	if err := walarchive.New(f.store, kept.Physical.SystemIdentifier).Segments(ctx, 1, list); err != nil || slices.Min(left) != kept.Physical.StartWAL {
		f.t.Errorf("%v are left, %v, and %s is needed", left, err, kept.Physical.StartWAL)
	}
}

// wantRestorable checks what a manifest says, and that all WAL of the base backup is archived.
func (f *baseFixture) wantRestorable(ctx context.Context, m *manifest.Manifest) recovery.Base {
	f.t.Helper()
	base, ok := m.Base()
	if !ok || base.End <= base.Start || base.Timeline != 1 || base.SegmentSize != 1<<20 {
		f.t.Errorf("%+v", base)
	}
	if len(m.Parts) != 1 || m.Parts[0].Name != "base.tar.zst" || !strings.HasPrefix(m.ServerVersion, fmt.Sprint(f.primary.Settings.Major)) {
		f.t.Errorf("%+v", m)
	}
	if len(m.Parts[0].Segments) < 3 {
		f.t.Errorf("%d segments of 1 MiB at most, for %d bytes", len(m.Parts[0].Segments), m.Parts[0].Size)
	}
	list, err := walarchive.New(f.store, base.SystemID).Recoverable(ctx, base.SegmentSize)
	if err == nil {
		_, err = recovery.Choose([]recovery.Base{base}, list, recovery.Target{Immediate: true}, time.Now())
	}
	if err != nil {
		f.t.Errorf("the backup needs WAL that is not archived: %v", err)
	}
	return base
}

// TestEstimate: the server tells the size of a base backup while it sends it, also of the first one.
func TestEstimate(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	f := newBaseFixture(t)
	r := f.run("one")
	from, err := r.newReplication(ctx, "localhost")
	if err != nil {
		t.Fatal(err)
	}
	defer from.remove()
	stop := r.progress.Start(ctx, 0)
	defer stop()
	copying, end := context.WithCancel(ctx)
	copied := make(chan error, 1)
	go func() { copied <- r.execute(copying, from.baseBackup("--max-rate=1M"), r.progress); close(copied) }()
	defer func() { end(); <-copied }()
	defer r.estimate(ctx, from)()
	for r.progress.State().TotalBytes == 0 {
		select {
		case err := <-copied:
			t.Fatalf("no size during the copy (%v) of %d bytes", err, r.progress.State().Bytes)
		case <-time.After(10 * time.Millisecond):
		}
	}
	size := int64(0)
	f.query(`SELECT sum(pg_database_size(oid))::bigint FROM pg_database`, &size)
	if got := r.progress.State(); got.TotalBytes < size || got.TotalBytes > 2*size || got.Percent == nil {
		t.Errorf("%+v, and the databases have %d bytes", got, size)
	}
}

// TestBase_failures leave no backup.
func TestBase_failures(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	f := newBaseFixture(t)
	wants := func(reason string, r *run) {
		t.Helper()
		_, err := r.takeOnce(ctx, r.method())
		if failure, ok := errors.AsType[*Error](err); !ok || failure.Reason != reason {
			t.Errorf("%v, want %s", err, reason)
		}
		if _, err := manifest.Read(ctx, f.store, r.config.Object); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("there is a manifest: %v", err)
		}
	}
	closed := f.run("closed")
	closed.config.Backup.Server.Port = int32(testpg.Port(t))
	wants(backupv1alpha1.ReasonServerUnreachable, closed)
	place := filepath.Join(testpg.Dir(t), "tablespace")
	if err := os.Mkdir(place, 0o700); err != nil {
		t.Fatal(err)
	}
	if c := testpg.Credential(t); c != nil {
		if err := os.Chown(place, int(c.Uid), int(c.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	f.sql(fmt.Sprintf(`CREATE TABLESPACE elsewhere LOCATION '%s'`, place))
	wants(backupv1alpha1.ReasonBackupRejected, f.run("tablespace"))
	f.sql(`DROP TABLESPACE elsewhere`)
	f.sql(`ALTER ROLE streaming_replica NOREPLICATION`)
	wants(backupv1alpha1.ReasonServerRejected, f.run("forbidden"))
}

func TestBaseBackup_incomplete(t *testing.T) {
	t.Parallel()
	const labelText = "START WAL LOCATION: 0/2000028 (file 000000010000000000000002)\nCHECKPOINT LOCATION: 0/2000060\nSTART TIMELINE: 1\n"
	entry := func(w *tar.Writer, name, content string) {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	file := `{ "Path": "base/1/1", "Size": 8192, "Last-Modified": "2026-11-24 00:00:00 GMT" },` + "\n"
	manifestText := strings.Repeat(file, 1000) + `"WAL-Ranges": [
{ "Timeline": 1, "Start-LSN": "0/2000028", "End-LSN": "0/2000100" }
],
"Manifest-Checksum": "aa"}
`
	full := func(names ...string) []byte {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		for _, name := range names {
			entry(w, name, map[bool]string{true: manifestText, false: labelText}[name == "backup_manifest"])
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	complete := full("backup_label", "base/1/1", "global/pg_control", "backup_manifest")
	b := &baseBackup{}
	if err := b.read(t.Context(), bytes.NewReader(complete)); err != nil || b.label.segment != "000000010000000000000002" || b.label.start != 0x2000028 || b.end != 0x2000100 {
		t.Errorf("%+v, %v", b.label, err)
	}
	for name, content := range map[string][]byte{
		"no label": full("global/pg_control", "backup_manifest"), "no control file": full("backup_label", "backup_manifest"),
		"no manifest": full("backup_label", "global/pg_control"), "cut": complete[:1000], "not a tar": []byte(strings.Repeat("x", 1024)),
	} {
		if err := new(baseBackup).read(t.Context(), bytes.NewReader(content)); err == nil {
			t.Errorf("%s is complete", name)
		}
	}
	before := identity{systemID: "7", timeline: 1}
	for name, after := range map[string]identity{"failover": {systemID: "7", timeline: 2}, "another cluster": {systemID: "8", timeline: 1}} {
		if _, err := b.describe(before, after); err == nil {
			t.Errorf("%s: the copy is used", name)
		}
	}
	if p, err := b.describe(before, identity{systemID: "7", timeline: 1, position: 0x3000000}); err != nil || p.EndLSN != "0/2000100" {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestExpired_windowOfPhysicalBackups: one base backup before the start of the retention stays.
func TestExpired_windowOfPhysicalBackups(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var all []*manifest.Manifest
	for _, days := range []int{50, 40, 20, 0} {
		all = append(all, &manifest.Manifest{Run: fmt.Sprintf("d%d", days), Completed: now.AddDate(0, 0, -days)})
	}
	for _, c := range []struct {
		own       string
		method    backupv1alpha1.BackupMethod
		retention string
		want      []string
	}{
		{"d0", backupv1alpha1.MethodPhysical, "30d", []string{"d50"}},
		{"d0", backupv1alpha1.MethodLogical, "30d", []string{"d50", "d40"}},
		{"d0", backupv1alpha1.MethodPhysical, "2c", []string{"d50", "d40"}},
		{"d0", backupv1alpha1.MethodPhysical, "", nil},
		{"d50", backupv1alpha1.MethodLogical, "1c", []string{"d40", "d20"}}, // its clock is late
	} {
		rule, err := retention.Parse(c.retention, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := &run{config: &job.Config{Object: c.own, Backup: &job.Backup{Method: c.method, Retention: c.retention}}}
		if expired := r.expired(rule, all); !slices.Equal(expired, c.want) {
			t.Errorf("%s %q: %v expire, want %v", c.method, c.retention, expired, c.want)
		}
	}
}
