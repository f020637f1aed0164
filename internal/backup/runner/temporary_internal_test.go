package runner

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/job"
	"github.com/fettle-dev/fettle/internal/backup/manifest"
	"github.com/fettle-dev/fettle/internal/backup/temporary"
	"github.com/fettle-dev/fettle/internal/backup/walarchive"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

func TestExpected(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value, want *string
		is          bool
	}{
		{nil, nil, false}, {nil, new(""), false}, // no row, or NULL
		{new("t"), nil, true}, {new("1"), nil, true}, {new("f"), nil, false}, {new("0"), nil, false}, {new("false"), nil, false}, {new(""), nil, false},
		{new("0"), new("0"), true}, {new(""), new(""), true}, {new("42"), new("4"), false},
	} {
		if expected(c.value, c.want) != c.is {
			t.Errorf("%s, and %s is wanted: must be %t", show(c.value), show(c.want), c.is)
		}
	}
}

// copyOfTest is a copy of the test binary that PostgreSQL's user may run.
func copyOfTest(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	name := filepath.Join(testpg.Dir(t), "fettle")
	out, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o755) //nolint:gosec // another user runs it
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); errors.Join(err, out.Close()) != nil {
		t.Fatal(err)
	}
	return name
}

// verify verifies a Physical backup in a temporary server.
func (f *baseFixture) verify(ctx context.Context, program, name string, how job.Temporary) (result backupv1alpha1.RunResult, err error) {
	f.t.Helper()
	m, err := manifest.Read(ctx, f.store, name)
	if err != nil {
		f.t.Fatal(err)
	}
	folder := testpg.Dir(f.t)
	// PostgreSQL's user connects to the socket of the test: it has the group of the folder.
	if err := os.Chmod(folder, 0o770|os.ModeSetgid); err != nil {
		f.t.Fatal(err)
	}
	running, cancel := context.WithCancel(ctx)
	log, ended := &testpg.Log{}, make(chan struct{})
	go func() {
		defer close(ended)
		_ = temporary.Run(running, temporary.Options{
			Folder: folder, Data: testpg.Dir(f.t), Program: program, Output: log, Log: slog.New(slog.NewTextHandler(log, nil)), Credential: testpg.Credential(f.t),
		})
	}()
	r := f.run("verification")
	r.Temporary, r.config = folder, &job.Config{Namespace: "shop", Object: "verification", Restore: &job.Restore{Temporary: &how}}
	err = r.verifyBackup(ctx, m, &result)
	cancel()
	<-ended
	f.t.Cleanup(func() {
		if f.t.Failed() {
			f.t.Logf("log of the temporary server of %s:\n%s", name, log)
		}
	})
	return result, err
}

// TestVerifyBackup_physical replays what was archived after the base backup, and finds damage that the checksum of the part does not show.
func TestVerifyBackup_physical(t *testing.T) {
	t.Setenv("PATH", testpg.Binaries(t).Dir+":"+os.Getenv("PATH"))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	f, program := newBaseFixture(t), copyOfTest(t)
	f.sql(`CREATE TABLE filled AS SELECT generate_series(1, 1000) AS id, 'needle-in-the-page' AS text`, `CREATE DATABASE app`)
	stop := f.archive(ctx)
	r := f.run("one")
	r.config.Backup.Compression, r.SegmentSize = backupv1alpha1.CompressionNone, 0
	m, err := r.takeOnce(ctx, r.method())
	if err != nil {
		t.Fatal(err)
	}
	f.sql(`INSERT INTO filled VALUES (1001, 'from the archive')`)
	f.waitArchived(ctx, m.Physical.SystemIdentifier)
	stop()
	how := job.Temporary{Query: "SELECT count(*) FROM filled", Expect: new("1001"), Database: "postgres"}
	result, err := f.verify(ctx, program, "one", how)
	if err != nil || result.Tables != 1 || result.Rows != 1001 {
		t.Errorf("%+v, %v", result, err)
	}
	how.Expect = new("1000")
	wants := func(reason string, how job.Temporary) {
		t.Helper()
		_, err := f.verify(ctx, program, "one", how)
		if failure, ok := errors.AsType[*Error](err); !ok || failure.Reason != reason {
			t.Errorf("%v, want %s", err, reason)
		}
	}
	wants(backupv1alpha1.ReasonVerificationFailed, how)
	f.replacePart(ctx, m, func(part []byte) []byte {
		return bytes.Replace(part, []byte("needle-in-the-page"), []byte("needle-in-the-pagE"), 1)
	})
	wants(backupv1alpha1.ReasonBackupDamaged, job.Temporary{})
}

// waitArchived waits until all WAL so far is in the store.
func (f *baseFixture) waitArchived(ctx context.Context, system string) {
	f.t.Helper()
	name := f.queryText(ctx, "SELECT pg_walfile_name(pg_switch_wal())")
	for found := false; !found; time.Sleep(50 * time.Millisecond) {
		var err error
		if found, err = walarchive.New(f.store, system).Has(ctx, name); err != nil {
			f.t.Fatal(err)
		}
	}
}

// replacePart changes the only part of a backup, and its checksum in the manifest.
func (f *baseFixture) replacePart(ctx context.Context, m *manifest.Manifest, change func([]byte) []byte) {
	f.t.Helper()
	part := &m.Parts[0]
	body, err := manifest.Open(ctx, f.store, m.Run, *part)
	if err != nil {
		f.t.Fatal(err)
	}
	content, err := io.ReadAll(body)
	if err != nil {
		f.t.Fatal(err)
	}
	changed := change(bytes.Clone(content))
	if bytes.Equal(changed, content) {
		f.t.Fatal("nothing was changed")
	}
	sum := sha256.Sum256(changed)
	part.SHA256 = hex.EncodeToString(sum[:])
	if _, err := f.store.Write(ctx, path.Join(manifest.Folder(m.Run), part.Name), nil, func(w io.Writer) error {
		_, err := w.Write(changed)
		return err
	}); err != nil {
		f.t.Fatal(err)
	}
	if err := manifest.Write(ctx, f.store, m); err != nil {
		f.t.Fatal(err)
	}
}

func (f *baseFixture) queryText(ctx context.Context, query string) (text string) {
	f.t.Helper()
	conn, err := pgx.Connect(ctx, fmt.Sprintf("host=%s port=%d user=postgres dbname=postgres", f.primary.SocketDir(), f.primary.Settings.Port))
	if err != nil {
		f.t.Fatal(err)
	}
	defer conn.Close(ctx)
	if err := conn.QueryRow(ctx, query).Scan(&text); err != nil {
		f.t.Fatal(err)
	}
	return text
}
