package runner_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"testing"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/job"
	"github.com/fettle-dev/fettle/internal/backup/manifest"
	"github.com/fettle-dev/fettle/internal/backup/temporary"
	"github.com/fettle-dev/fettle/internal/testenv/testdatabases"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

// verification is the configuration of a verification of a run.
func (f *fixture) verification(name string, how job.Temporary) *job.Config {
	c := f.restore(name)
	c.Restore.To, c.Restore.Temporary = job.Server{}, &how
	return c
}

// withServer starts the container of the temporary server, which ends with the returned function.
func (f *fixture) withServer(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f.temporary = testpg.Dir(t)
	log := &testpg.Log{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := temporary.Run(ctx, temporary.Options{
			Folder: f.temporary, Data: testpg.Dir(t), Program: "/nothing", Output: log, Log: slog.New(slog.NewTextHandler(log, nil)), Credential: testpg.Credential(t),
		})
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Logf("temporary server: %v", err)
		}
	}()
	return func() {
		cancel()
		<-ended
		f.temporary = ""
		if t.Failed() {
			t.Logf("log of the temporary server:\n%s", log)
		}
	}
}

func (f *fixture) testVerification(t *testing.T) {
	t.Run("succeeds", func(t *testing.T) {
		defer f.withServer(t)()
		result := f.succeed(t, f.verification("first", job.Temporary{Query: "select count(*) from items where name is not null", Expect: new(f.rows())}))
		if result.Tables < 2 || result.Rows < 2000 {
			t.Errorf("%d tables with %d rows", result.Tables, result.Rows)
		}
	})
	for name, how := range map[string]job.Temporary{
		"another value": {Query: "select count(*) from items", Expect: new("1")},
		"a write":       {Query: "delete from items"},
	} {
		t.Run(name, func(t *testing.T) {
			defer f.withServer(t)()
			f.refused(t, f.verification("first", how), backupv1alpha1.ReasonVerificationFailed, true)
		})
	}
	t.Run("a damaged backup", f.testDamagedVerification)
}

// rows is the number of items with a name that Fill writes.
func (f *fixture) rows() string {
	if f.server.Type() == backupv1alpha1.ServerPostgreSQL {
		return "2002"
	}
	return "2004"
}

// testDamagedVerification needs no server: the whole backup is read first. An incomplete dump is found by the restore, or by the number of
// objects.
func (f *fixture) testDamagedVerification(t *testing.T) {
	m, err := manifest.Read(t.Context(), f.open(t), "first")
	if err != nil {
		t.Fatal(err)
	}
	name := path.Join(manifest.Folder("first"), m.Parts[0].Name)
	whole := f.read(t, name)
	defer f.put(t, name, whole)
	f.put(t, name, whole[:len(whole)/2])
	defer f.withServer(t)()
	f.refused(t, f.verification("first", job.Temporary{}), backupv1alpha1.ReasonBackupDamaged, true)
}

// secretOf writes a file that the server's user can read, and returns it with a marker that this user can create.
func secretOf(t *testing.T) (secret, marker string) {
	t.Helper()
	secret, marker = filepath.Join(testpg.Dir(t), "secret"), filepath.Join(testpg.Dir(t), "marker")
	if err := os.WriteFile(secret, []byte("true"), 0o644); err != nil { //nolint:gosec // the attack would read it
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := os.Stat(marker); err == nil {
			t.Error("a function of the backup ran a program")
		}
	})
	return secret, marker
}

// testVerificationAttack verifies a database whose owner makes the restore and the query run functions (attack 46). They have no right to
// run programs and to read files.
func (f *fixture) testVerificationAttack(t *testing.T) {
	secret, marker := secretOf(t)
	f.server.Create(t, "evil")
	pg := f.server.(*testdatabases.PostgreSQL)
	pg.SQL(t, "evil", "set session authorization "+testdatabases.User+`;
create function attack(i int) returns int language plpgsql as $f$
begin
  begin execute $c$copy (select 1) to program 'touch `+marker+`'$c$; exception when others then null; end;
  return i;
end $f$;
create function pure(i int) returns int immutable language sql as 'select public.attack(i)';
create table t as select 1 as id;
create index on t (pure(id));
create view v as select attack(id) from t;
create table secrets (content text);
create rule r as on insert to secrets do also select attack(1)`)
	f.succeed(t, f.backup("evil", "evil"))
	func() {
		defer f.withServer(t)()
		f.succeed(t, f.verification("evil", job.Temporary{Query: "select count(*) = 1 from (select attack from v) x"}))
	}()
	defer f.withServer(t)()
	f.refused(t, f.verification("evil", job.Temporary{Query: fmt.Sprintf("select pg_read_file('%s')", secret)}), backupv1alpha1.ReasonVerificationFailed, true)
}

// testVerificationAttackSQL is the same for MySQL: a dump that writes a file, and a function that belongs to root.
func (f *fixture) testVerificationAttackSQL(t *testing.T) {
	secret, marker := secretOf(t)
	const end = ";\n-- Dump completed on 2026-11-23\n"
	f.craft(t, "writes", "x", []byte("select 1 into outfile '"+marker+"'"+end))
	func() {
		defer f.withServer(t)()
		f.refused(t, f.verification("writes", job.Temporary{}), backupv1alpha1.ReasonRestoreFailed, true)
	}()
	f.craft(t, "reads", "x", []byte("create definer=`root`@`localhost` function steal() returns text reads sql data return load_file('"+secret+"');\n"+
		"create definer=`root`@`localhost` sql security definer view v as select load_file('"+secret+"') is not null as got"+end))
	defer f.withServer(t)()
	f.refused(t, f.verification("reads", job.Temporary{Query: "select got from v"}), backupv1alpha1.ReasonVerificationFailed, true)
}

// fetchWAL is "fettle backup fetch --folder FOLDER NAME PATH".
func fetchWAL(arguments []string) int {
	const folder, name, file, number = 4, 5, 6, 7
	if len(arguments) != number {
		return 255
	}
	found, err := temporary.Fetch(context.Background(), arguments[folder], arguments[name], arguments[file])
	switch {
	case err != nil:
		return 255
	case !found:
		return 1
	}
	return 0
}
