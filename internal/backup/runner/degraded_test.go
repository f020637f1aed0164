package runner_test

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/manifest"
	"github.com/fettle-dev/fettle/internal/testenv/testdatabases"
	"github.com/fettle-dev/fettle/internal/testenv/teststores"
)

// degraded is a server with few locks, and a database that is backed up as the run "first".
type degraded struct {
	*fixture
	pg *testdatabases.PostgreSQL
}

// TestRunner_degraded has databases that are large, change or go away, and targets that lack what a backup needs.
func TestRunner_degraded(t *testing.T) {
	t.Setenv("PATH", testdatabases.Path(t))
	pg := testdatabases.NewPostgreSQL(t, "max_connections = 20", "max_locks_per_transaction = 10", "max_wal_size = 1GB")
	d := &degraded{newFixture(t, pg, teststores.Start(t, backupv1alpha1.StoreS3)[0]), pg}
	pg.Create(t, "app")
	pg.Fill(t, "app", d.marker)
	c := d.backup("first", "app")
	c.Backup.Compression = backupv1alpha1.CompressionNone
	d.succeed(t, c)
	t.Run("more tables than locks", d.testManyTables)
	t.Run("a large object needs no more memory", d.testLargeObject)
	t.Run("a locked table delays the dump", d.testLockedTable)
	t.Run("database dropped during its dump", d.testDropped)
	t.Run("extension that the target lacks", d.testExtension)
	t.Run("target with another encoding", d.testEncoding)
}

// testManyTables: one transaction would need a lock for each table.
func (d *degraded) testManyTables(t *testing.T) {
	const tables = `do $$ begin for i in %d..%d loop execute format('create table t%%s (id int primary key, t text)', i); end loop; end $$`
	d.pg.Create(t, "many")
	statements := []string{"set role " + testdatabases.User}
	for i := 0; i < 300; i += 50 {
		statements = append(statements, fmt.Sprintf(tables, i, i+49))
	}
	d.pg.SQL(t, "many", append(statements, "insert into t7 values (1, 'x')")...)
	d.succeed(t, d.backup("many", "many"))
	d.pg.Create(t, "copy")
	d.succeed(t, d.restore("many", "copy"))
	want := d.pg.Checksum(t, "many")
	for range 15 {
		d.pg.SQL(t, "copy", "set role "+testdatabases.User, "select lo_create(0) from generate_series(1, 100)")
	}
	c := d.restore("many", "copy")
	c.Restore.Overwrite = true
	d.succeed(t, c)
	if d.pg.Checksum(t, "copy") != want {
		t.Error("the target differs after the restore")
	}
}

// testLargeObject: the memory of a run does not grow with the data.
func (d *degraded) testLargeObject(t *testing.T) {
	const limit = 96 << 20
	d.pg.Create(t, "large")
	d.pg.SQL(t, "large", "set role "+testdatabases.User, `do $$ declare f int := lo_open(lo_create(0), 131072); part bytea; begin
		select decode(string_agg(md5(i::text), ''), 'hex') into part from generate_series(1, 65536) i;
		for i in 1..128 loop perform lowrite(f, part); end loop; end $$`)
	d.pg.Create(t, "largecopy")
	peak := peakHeap(t, func() {
		d.succeed(t, d.backup("large", "large"))
		d.succeed(t, d.restore("large", "largecopy"))
	})
	t.Logf("%d MiB more memory for 128 MiB", peak>>20)
	if peak > limit {
		t.Errorf("%d MiB more memory, limit %d MiB", peak>>20, limit>>20)
	}
	if d.pg.Checksum(t, "largecopy") != d.pg.Checksum(t, "large") {
		t.Error("the target differs after the restore")
	}
}

// peakHeap is how many bytes the heap grows by meanwhile.
func peakHeap(t *testing.T, work func()) uint64 {
	t.Helper()
	heap := func() uint64 {
		samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}}
		metrics.Read(samples)
		return samples[0].Value.Uint64() + samples[1].Value.Uint64()
	}
	debug.FreeOSMemory()
	before, peak := heap(), make(chan uint64)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		highest := before
		for ctx.Err() == nil {
			highest = max(highest, heap())
			time.Sleep(time.Millisecond)
		}
		peak <- highest - before
	}()
	work()
	stop()
	return <-peak
}

// testLockedTable: a dump waits for a transaction that locks a table, and has the state from before it.
func (d *degraded) testLockedTable(t *testing.T) {
	want := d.pg.Checksum(t, "app")
	conn := d.pg.Connect(t, "app")
	for _, statement := range []string{"begin", "lock table items in access exclusive mode", "insert into items (name) values ('late')"} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error)
	go func() {
		const waiting = `select count(*) > 0 from pg_stat_activity where application_name = 'fettle-backup' and wait_event_type = 'Lock'`
		var err error
		for waits := false; err == nil && !waits; time.Sleep(10 * time.Millisecond) {
			// This transaction sees one state of it, unless it is told to look again.
			if _, err = conn.Exec(t.Context(), "select pg_stat_clear_snapshot()"); err == nil {
				err = conn.QueryRow(t.Context(), waiting).Scan(&waits)
			}
		}
		if err == nil {
			_, err = conn.Exec(t.Context(), "commit")
		}
		ended <- err
	}()
	d.succeed(t, d.backup("waits", "app"))
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	d.pg.Create(t, "waited")
	d.succeed(t, d.restore("waits", "waited"))
	if d.pg.Checksum(t, "waited") != want {
		t.Error("the dump has another state than that from before the transaction")
	}
}

func (d *degraded) testDropped(t *testing.T) {
	d.pg.Create(t, "gone")
	breakPrograms(t, "drop")
	d.refused(t, d.backup("dropped", "gone"), backupv1alpha1.ReasonDatabaseMissing, true)
}

// testExtension restores a backup of a database with an extension that the server does not have.
func (d *degraded) testExtension(t *testing.T) {
	m, err := manifest.Read(t.Context(), d.open(t), "first")
	if err != nil {
		t.Fatal(err)
	}
	dump := d.read(t, path.Join(manifest.Folder("first"), m.Parts[0].Name))
	d.craft(t, "extension", "app", bytes.ReplaceAll(dump, []byte("pg_trgm"), []byte("pg_none")))
	d.pg.Create(t, "lacks")
	d.wantUntouched(t, "extension", "lacks", `extension "pg_none" is not available`)
}

// testEncoding restores text into a database whose encoding lacks some of its characters, and into one that has them.
func (d *degraded) testEncoding(t *testing.T) {
	for _, name := range []string{"latin", "latin2"} {
		d.pg.SQL(t, "postgres", fmt.Sprintf("create database %s owner %s template template0 encoding 'LATIN1' lc_collate 'C' lc_ctype 'C'", name, testdatabases.User))
		d.pg.SQL(t, name, "create extension pg_trgm", "alter schema public owner to "+testdatabases.User)
	}
	d.wantUntouched(t, "first", "latin", "LATIN1")
	d.pg.Create(t, "umlauts")
	d.pg.SQL(t, "umlauts", "set role "+testdatabases.User, "create table t as select 'Grüße' as text")
	d.succeed(t, d.backup("umlauts", "umlauts"))
	d.succeed(t, d.restore("umlauts", "latin2"))
	var text string
	if err := d.pg.Connect(t, "latin2").QueryRow(t.Context(), "select encode(convert_to(text, 'UTF8'), 'escape') from t").Scan(&text); err != nil || text != `Gr\303\274\303\237e` {
		t.Errorf("%q after the restore, %v", text, err)
	}
}

// wantUntouched restores a run, which must fail, say why, and leave the target as it was.
func (d *degraded) wantUntouched(t *testing.T, run, target, says string) {
	t.Helper()
	before := d.pg.Checksum(t, target)
	result, err := d.run(t, d.restore(run, target))
	if err == nil || result.Reason != backupv1alpha1.ReasonRestoreFailed || !strings.Contains(result.Message, says) {
		t.Errorf("%+v, want %q", result, says)
	}
	if d.pg.Checksum(t, target) != before {
		t.Error("a failed restore changed the target")
	}
}
