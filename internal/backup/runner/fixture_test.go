package runner_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/job"
	"github.com/fettle-dev/fettle/internal/backup/manifest"
	"github.com/fettle-dev/fettle/internal/backup/runner"
	"github.com/fettle-dev/fettle/internal/backup/store"
	"github.com/fettle-dev/fettle/internal/testenv/testdatabases"
	"github.com/fettle-dev/fettle/internal/testenv/teststores"
)

const namespace = "shop"

// Logins of the pods.
const (
	rightLogin = iota
	wrongLogin
)

const wrongPassword = "wrong-secret-password"

// fixture is a database server, a store, and what a pod of the operator has.
type fixture struct {
	server testdatabases.Server
	store  teststores.Server
	// root has the folders of package job.
	root string
	// segmentSize is that of runner.Options.
	segmentSize int64
	// temporary is runner.Options.Temporary.
	temporary string
	// marker is a file that exists if a command in a dump was run.
	marker string
}

func newFixture(t *testing.T, server testdatabases.Server, objects teststores.Server) *fixture {
	t.Helper()
	f := &fixture{server: server, store: objects, root: t.TempDir(), marker: filepath.Join(t.TempDir(), "marker")}
	for name, content := range objects.Keys.Files {
		f.write(t, job.DirStore, name, content)
	}
	f.write(t, job.DirStoreCA, "ca.crt", objects.Keys.CA)
	for login, password := range map[int]string{rightLogin: testdatabases.Password, wrongLogin: wrongPassword} {
		f.write(t, job.DirLogin(login), "username", []byte(testdatabases.User))
		f.write(t, job.DirLogin(login), "password", []byte(password))
	}
	if pg, ok := server.(*testdatabases.PostgreSQL); ok {
		ca, err := os.ReadFile(pg.CA.File("ca.crt"))
		if err != nil {
			t.Fatal(err)
		}
		f.write(t, job.DirServerCA, "ca.crt", ca)
	}
	return f
}

func (f *fixture) write(t *testing.T, folder, name string, content []byte) {
	t.Helper()
	dir := filepath.Join(f.root, folder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// on returns the server with some of its databases.
func (f *fixture) on(databases ...string) job.Server {
	s := job.Server{Type: f.server.Type(), Host: "127.0.0.1", Port: f.server.Port(), TLS: backupv1alpha1.TLSPrefer}
	if s.Type == backupv1alpha1.ServerPostgreSQL {
		s.TLS, s.VerifyCA = backupv1alpha1.TLSVerifyFull, true
	}
	for _, name := range databases {
		s.Databases = append(s.Databases, job.Database{Name: name, Login: rightLogin})
	}
	return s
}

// plan is a Backup with the name "nightly-" and the type of the server.
func (f *fixture) plan() string { return "nightly-" + string(f.server.Type()) }

// backup is the configuration of a run.
func (f *fixture) backup(name string, databases ...string) *job.Config {
	return &job.Config{Namespace: namespace, Object: name, Backup: &job.Backup{
		Name: f.plan(), Method: backupv1alpha1.MethodLogical, Destination: f.store.Destination, Server: f.on(databases...),
		Compression: backupv1alpha1.CompressionZstd,
	}}
}

// restore is the configuration of a restore of a run, or of the last one.
func (f *fixture) restore(name string, databases ...string) *job.Config {
	return &job.Config{Namespace: namespace, Object: "restore", Restore: &job.Restore{
		From: backupv1alpha1.BackupLocation{Destination: f.store.Destination, Backup: f.plan(), Run: name}, To: f.on(databases...),
	}}
}

// report records what a pod reports.
type report struct {
	mu       sync.Mutex
	progress []backupv1alpha1.Progress
	results  []backupv1alpha1.RunResult
}

func (r *report) Progress(_ context.Context, p backupv1alpha1.Progress) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress = append(r.progress, p)
	return nil
}

func (r *report) Result(_ context.Context, result backupv1alpha1.RunResult) error {
	r.results = append(r.results, result)
	return nil
}

// run runs a pod, and checks what holds for each.
func (f *fixture) run(t *testing.T, c *job.Config) (backupv1alpha1.RunResult, error) {
	t.Helper()
	var log bytes.Buffer
	seen, temp := &report{}, t.TempDir()
	config, err := job.Decode(c.Encode())
	if err != nil {
		t.Fatal(err)
	}
	err = runner.Run(t.Context(), config, runner.Options{
		Report: seen, Log: slog.New(slog.NewTextHandler(&log, nil)), Temp: temp, Root: f.root, StoreOptions: []store.Option{store.PermitLoopback()},
		SegmentSize: f.segmentSize, Temporary: f.temporary,
	})
	if len(seen.results) != 1 {
		t.Fatalf("%d results (%v), want 1", len(seen.results), err)
	}
	result := seen.results[0]
	for _, text := range []string{log.String(), result.Message, result.RetentionMessage} {
		for _, secret := range []string{testdatabases.Password, wrongPassword, "p%40ss", string(f.store.Keys.Files["secret-access-key"])} {
			if strings.Contains(text, secret) {
				t.Errorf("a secret is in %q", text)
			}
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("%d files with passwords remain (%v)", len(left), err)
	}
	if _, err := os.Stat(f.marker); err == nil {
		t.Error("a command in a dump was run")
	}
	if (err == nil) != (result.Reason == backupv1alpha1.ReasonSucceeded) {
		t.Errorf("result %q for error %v", result.Reason, err)
	}
	return result, err
}

// succeed runs a pod that must succeed.
func (f *fixture) succeed(t *testing.T, c *job.Config) backupv1alpha1.RunResult {
	t.Helper()
	result, err := f.run(t, c)
	if err != nil {
		t.Fatal(err)
	}
	if result.StoredBytes == 0 || result.Location == "" {
		t.Errorf("result %+v has no size or location", result)
	}
	return result
}

// refused runs a pod that must fail for a reason.
func (f *fixture) refused(t *testing.T, c *job.Config, reason string, permanent bool) {
	t.Helper()
	result, err := f.run(t, c)
	if result.Reason != reason {
		t.Errorf("reason %q, want %q (%s)", result.Reason, reason, result.Message)
	}
	if failure, ok := errors.AsType[*runner.Error](err); !ok || failure.Permanent != permanent {
		t.Errorf("error %v: permanent must be %v", err, permanent)
	}
	if c.Backup != nil {
		if _, err := manifest.Read(t.Context(), f.open(t), c.Object); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("manifest of a failed run: %v", err)
		}
		if objects := f.objects(t, manifest.Folder(c.Object)); len(objects) > 0 {
			t.Errorf("a failed run left %q", objects)
		}
	}
}

func (f *fixture) open(t *testing.T) *store.Store { return f.openFolder(t, namespace+"/"+f.plan()) }

func (f *fixture) openFolder(t *testing.T, folder string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), f.store.Destination, f.store.Keys, folder, store.PermitLoopback())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func (f *fixture) objects(t *testing.T, folder string) (names []string) {
	t.Helper()
	if err := f.open(t).List(t.Context(), folder+"/", func(name string, _ int64) error {
		names = append(names, name)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return names
}

// read returns an object, and put replaces it.
func (f *fixture) read(t *testing.T, name string) []byte {
	t.Helper()
	body, err := f.open(t).Read(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	content, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func (f *fixture) put(t *testing.T, name string, content []byte) {
	t.Helper()
	if _, err := f.open(t).Write(t.Context(), name, nil, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
