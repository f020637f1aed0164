package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gocloud.dev/blob/memblob"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/archive"
	"github.com/fettle-dev/fettle/internal/backup/job"
	"github.com/fettle-dev/fettle/internal/backup/manifest"
	"github.com/fettle-dev/fettle/internal/backup/progress"
	"github.com/fettle-dev/fettle/internal/backup/store"
	"github.com/fettle-dev/fettle/internal/testenv/fakes3"
)

// inMemory is a run whose store is in memory.
func inMemory(t *testing.T) *run {
	t.Helper()
	s, err := store.New(memblob.OpenBucket(nil), backupv1alpha1.Destination{URI: "s3://bucket"}, "shop/db")
	if err != nil {
		t.Fatal(err)
	}
	return &run{
		Options: Options{Report: noReport{}, Log: slog.New(slog.DiscardHandler)}, store: s, secrets: &redactor{}, progress: progress.New(noReport{}.Progress),
		config: &job.Config{Namespace: "shop", Object: "one", Backup: &job.Backup{Name: "db"}, Restore: &job.Restore{}},
	}
}

func reasonOf(err error) string {
	if failure, ok := errors.AsType[*Error](err); ok {
		return failure.Reason
	}
	return ""
}

// TestUpload_badDumps: a dump that is empty, that its check rejects, or whose program fails is not stored.
func TestUpload_badDumps(t *testing.T) {
	lost, accept := errors.New("connection lost"), func(context.Context, io.Reader) error { return nil }
	writes := func(text string, err error) source {
		return func(_ context.Context, out io.Writer) error {
			_, writeErr := io.WriteString(out, text)
			return errors.Join(writeErr, err)
		}
	}
	r := inMemory(t)
	for name, c := range map[string]struct {
		from   source
		check  check
		reason string
		cause  error
	}{
		"empty":    {writes("", nil), accept, backupv1alpha1.ReasonDumpInvalid, nil},
		"rejected": {writes("half", nil), func(context.Context, io.Reader) error { return errNoTrailer }, backupv1alpha1.ReasonDumpInvalid, nil},
		"rejected at its end": {writes("half", nil), func(_ context.Context, dump io.Reader) error {
			_, err := io.Copy(io.Discard, dump)
			return errors.Join(err, errNoTrailer)
		}, backupv1alpha1.ReasonDumpInvalid, nil},
		"failed": {writes("half", lost), accept, "", lost},
	} {
		_, err := r.upload(t.Context(), "shop.dump", archive.Options{Compression: backupv1alpha1.CompressionZstd}, c.from, c.check)
		if err == nil || reasonOf(err) != c.reason || c.cause != nil && !errors.Is(err, c.cause) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := r.store.List(t.Context(), "", func(name string, _ int64) error { t.Errorf("%s remains", name); return nil }); err != nil {
		t.Error(err)
	}
}

func TestReadBack(t *testing.T) {
	r := inMemory(t)
	write := func(text string) source {
		return func(_ context.Context, out io.Writer) error { _, err := io.WriteString(out, text); return err }
	}
	accept := func(context.Context, io.Reader) error { return nil }
	part, err := r.upload(t.Context(), "shop.dump", archive.Options{}, write("a dump"), accept)
	if err != nil {
		t.Fatal(err)
	}
	object := path.Join(manifest.Folder("one"), part.Name)
	for _, other := range []string{"a dumb", "a dum", "a dump."} {
		if _, err := r.store.Write(t.Context(), object, nil, func(w io.Writer) error { return write(other)(t.Context(), w) }); err != nil {
			t.Fatal(err)
		}
		if err := r.readBack(t.Context(), part); reasonOf(err) != backupv1alpha1.ReasonStoredDiffers {
			t.Errorf("%q: %v", other, err)
		}
	}
}

// backups stores manifests in a server, the oldest first, and returns a run over them that keeps one backup.
func backups(t *testing.T, objects *fakes3.Server, names ...string) *run {
	t.Helper()
	return backupsBy(t, objects, backupv1alpha1.MethodLogical, names...)
}

// segment is the WAL segment that the base backup of this index needs first.
func segment(index int) string { return fmt.Sprintf("0000000100000000%08X", index+1) }

// backupsBy is backups with a method. Each base backup has one archived segment.
func backupsBy(t *testing.T, objects *fakes3.Server, method backupv1alpha1.BackupMethod, names ...string) *run {
	t.Helper()
	for i, name := range names {
		at := time.Unix(int64(1000+i), 0).UTC()
		m := &manifest.Manifest{
			Format: manifest.Format, Namespace: "shop", Backup: "db", Run: name, Method: string(method), Type: "postgresql", Started: at, Completed: at,
			Parts: []manifest.Part{{Name: "a.dump", Size: 1, SHA256: strings.Repeat("0", 64)}},
		}
		if method == backupv1alpha1.MethodPhysical {
			m.Physical = &manifest.Physical{SystemIdentifier: "7", Timeline: 1, StartLSN: "0/1", EndLSN: "0/2", StartWAL: segment(i), WALSegmentSize: 16 << 20}
			objects.Put("shop/db/wal/7/00000001/"+segment(i), "x")
		}
		raw, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		objects.PutAt("shop/db/runs/"+name+"/manifest.json", string(raw), time.Now())
	}
	r := inMemory(t)
	r.Root, r.StoreOptions = t.TempDir(), []store.Option{store.PermitLoopback()}
	err := os.MkdirAll(r.path(job.DirStore), 0o700)
	for name, content := range fakes3.Files() {
		err = errors.Join(err, os.WriteFile(filepath.Join(r.path(job.DirStore), name), content, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	r.config.Backup = &job.Backup{Name: "db", Method: method, Destination: objects.Destination(), Retention: "1c", Server: job.Server{Type: "nonsense"}}
	return r
}

// TestRun_failureDeletesNoBackup: a run that fails leaves all backups, also those that the retention would delete.
func TestRun_failureDeletesNoBackup(t *testing.T) {
	objects := fakes3.Start(t)
	r := backups(t, objects, "older", "old")
	objects.PutAt("shop/db/runs/stopped/a.dump", "x", time.Unix(1000, 0))
	before := objects.Keys()
	if result, err := r.backUp(t.Context()); err == nil || result.DeletedBackups > 0 {
		t.Errorf("%+v, %v", result, err)
	}
	if after := objects.Keys(); !slices.Equal(after, before) {
		t.Errorf("%v remain of %v", after, before)
	}
	for _, key := range objects.Deleted() {
		if !strings.Contains(key, "/runs/one/") {
			t.Errorf("deleted %s", key)
		}
	}
}

// TestRun_removesAbandoned: what a run left whose pod was killed goes with the next success, and counts as no backup.
func TestRun_removesAbandoned(t *testing.T) {
	objects := fakes3.Start(t)
	r := backups(t, objects, "old", "one")
	r.config.Backup.Retention = ""
	objects.PutAt("shop/db/runs/stopped/a.dump", "x", time.Unix(1000, 0))
	objects.PutAt("shop/db/runs/active/a.dump", "x", time.Now())
	result, err := r.backUp(t.Context())
	if err != nil || result.DeletedBackups != 0 || result.RetentionMessage != "" {
		t.Errorf("%+v, %v", result, err)
	}
	if left := objects.Keys(); !slices.Equal(left, []string{"shop/db/runs/active/a.dump", "shop/db/runs/old/manifest.json", "shop/db/runs/one/manifest.json"}) {
		t.Errorf("%v remain", left)
	}
}

// killRequests is more than the number of requests of a run.
const killRequests = 30

// TestRun_killedAtEachRequest: a run whose pod is killed before or after any request to the store leaves a complete backup or none, and all
// earlier backups as long as its own is not complete. The retry of its Job ends as an undisturbed run does.
func TestRun_killedAtEachRequest(t *testing.T) {
	for at := range killRequests {
		for _, answered := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d/answered=%v", at, answered), func(t *testing.T) {
				t.Parallel()
				killedRun(t, at, answered)
			})
		}
	}
}

// killer is a store whose client is killed at a request, the first of which is 0. Until revived, it answers no later one.
type killer struct {
	*fakes3.Server
	at       int64
	answered bool // the store handles the request, and the client does not hear of it
	kill     context.CancelFunc
	sent     atomic.Int64
	killed   atomic.Bool
	revived  atomic.Bool
}

func (k *killer) intercept(w http.ResponseWriter, r *http.Request) bool {
	const handled = "X-Handled"
	n := k.sent.Add(1) - 1
	if r.Header.Get(handled) != "" || k.revived.Load() || n < k.at {
		return false
	}
	k.killed.Store(true)
	k.kill()
	if n == k.at && k.answered {
		r.Header.Set(handled, "true")
		k.ServeHTTP(httptest.NewRecorder(), r)
	}
	w.WriteHeader(http.StatusForbidden) // an error that the client does not retry: it is dead
	return true
}

// check holds after a kill: what has a manifest is complete, and an earlier backup was deleted only after the run was complete.
func (k *killer) check(t *testing.T) {
	t.Helper()
	left := k.Keys()
	has := func(run, file string) bool { return slices.Contains(left, "shop/db/runs/"+run+"/"+file) }
	for run, part := range map[string]string{"one": "app.dump", "old": "a.dump", "older": "a.dump"} {
		switch complete := has(run, "manifest.json"); {
		case complete && !has(run, part):
			t.Errorf("%s has a manifest without its part: %v", run, left)
		case !complete && run != "one" && !has("one", "manifest.json"):
			t.Errorf("%s was deleted before the run was complete: %v", run, left)
		}
	}
}

func killedRun(t *testing.T, at int, answered bool) {
	t.Helper()
	k := &killer{Server: fakes3.Start(t), at: int64(at), answered: answered}
	r := backups(t, k.Server, "older", "old")
	for _, run := range []string{"older", "old"} {
		k.PutAt("shop/db/runs/"+run+"/a.dump", "x", time.Now())
	}
	k.Intercept = k.intercept
	take := func(ctx context.Context, m *manifest.Manifest, o archive.Options) error {
		m.Type, m.Method = "postgresql", "Logical"
		part, err := r.upload(ctx, "app.dump", o, sourceOf([]byte("a dump of one database")), func(context.Context, io.Reader) error { return nil })
		m.Parts = append(m.Parts, part)
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	k.kill = cancel
	if _, err := r.backUpBy(ctx, take); err != nil && !k.killed.Load() {
		t.Fatal(err)
	}
	k.revived.Store(true)

	k.check(t)
	if at == killRequests-1 && k.killed.Load() {
		t.Error("a run sends more requests than were tried")
	}
	if result, err := r.backUpBy(t.Context(), take); err != nil || result.RetentionMessage != "" {
		t.Fatalf("the retry: %+v, %v", result, err)
	}
	left := slices.DeleteFunc(k.Keys(), func(key string) bool { return strings.HasSuffix(key, "/a.dump") }) // without a manifest: no backup
	if !slices.Equal(left, []string{"shop/db/runs/one/app.dump", "shop/db/runs/one/manifest.json"}) {
		t.Errorf("%v remain after the retry", left)
	}
	if err := r.openStore(t.Context(), k.Destination(), "shop/db"); err != nil {
		t.Fatal(err)
	}
	m, err := manifest.Read(t.Context(), r.store, "one")
	if err == nil {
		err = r.readBack(t.Context(), m.Parts[0])
	}
	if err != nil {
		t.Errorf("the backup of the retry: %v", err)
	}
}

// TestRun_objectLock: a run whose backup is complete succeeds, and says that the store refused to delete an old one. The old base backup can
// still be restored, so the WAL after it stays.
func TestRun_objectLock(t *testing.T) {
	for _, method := range []backupv1alpha1.BackupMethod{backupv1alpha1.MethodLogical, backupv1alpha1.MethodPhysical} {
		for _, locked := range []bool{true, false} {
			objects := fakes3.Start(t)
			objects.Locked = locked
			r := backupsBy(t, objects, method, "old", "one") // an earlier attempt stored its own backup
			result, err := r.backUp(t.Context())
			if err != nil || strings.Contains(result.RetentionMessage, "s3:DeleteObject") != locked || (result.DeletedBackups == 0) != locked {
				t.Errorf("%s, locked %v: %+v, %v", method, locked, result, err)
			}
			first, kept := result.FirstRecoverableTime, slices.Contains(objects.Keys(), "shop/db/wal/7/00000001/"+segment(0))
			if method == backupv1alpha1.MethodPhysical && (first == nil || first.Unix() == 1000 != locked || kept != locked) {
				t.Errorf("locked %v: recoverable from %v, its WAL is there: %v", locked, first, kept)
			}
		}
	}
}

// target is a server whose databases have a number of objects.
type target struct {
	server
	objects int64
}

func (s target) inspect(context.Context, job.Database) (info, error) {
	return info{version: "18", objects: s.objects}, nil
}

func (target) programs(context.Context, string) (map[string]string, error) { return nil, nil }

// full is a server whose disk is full in the middle of a restore.
type full struct{ target }

func (full) restore(_ context.Context, _ string, _ job.Database, _ string, dump io.Reader) error {
	_, err := io.CopyN(io.Discard, dump, 1)
	return errors.Join(err, &programError{program: "pg_restore", err: errors.New("exit status 1"), tail: "could not extend file: No space left on device"})
}

// TestRestore_diskFull: only a person can help, so the result has the error of the server.
func TestRestore_diskFull(t *testing.T) {
	r := inMemory(t)
	part, err := r.upload(t.Context(), "shop.dump", archive.Options{}, sourceOf([]byte("a dump")), accept)
	if err != nil {
		t.Fatal(err)
	}
	err = r.restoreAll(t.Context(), &manifest.Manifest{Run: "one"}, full{}, []assignment{{part: part, to: job.Database{Name: "shop"}}})
	failure, ok := errors.AsType[*Error](err)
	if !ok || failure.Reason != backupv1alpha1.ReasonRestoreFailed || !failure.Permanent || !strings.Contains(failure.Message, "No space left on device") ||
		!strings.Contains(failure.Message, "may be incomplete") {
		t.Errorf("%v", err)
	}
}

// TestBaseFailure_sourceLost: a standby that is removed during its copy is no reason to give up. The next attempt takes another instance.
func TestBaseFailure_sourceLost(t *testing.T) {
	lost := &programError{program: pgBasebackup, err: errors.New("exit status 1"), tail: "could not read COPY data: SSL connection has been closed unexpectedly"}
	if failure, ok := errors.AsType[*Error](baseFailure(fmt.Errorf("upload: %w", lost))); !ok || failure.Reason != backupv1alpha1.ReasonDumpFailed || failure.Permanent {
		t.Errorf("%v", failure)
	}
}

func TestCheckTargets(t *testing.T) {
	r := inMemory(t)
	all := []assignment{{to: job.Database{Name: "shop"}}}
	for _, c := range []struct {
		objects   int64
		overwrite bool
		reason    string
	}{{0, false, ""}, {1, false, backupv1alpha1.ReasonTargetNotEmpty}, {1, true, ""}} {
		r.config.Restore.Overwrite = c.overwrite
		if err := r.checkTargets(t.Context(), &manifest.Manifest{}, target{objects: c.objects}, all); reasonOf(err) != c.reason || (err == nil) != (c.reason == "") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
