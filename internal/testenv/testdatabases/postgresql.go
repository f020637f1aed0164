package testdatabases

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

// PostgreSQL is a server whose certificate CA signs. Its databases have an extension that the login cannot create.
type PostgreSQL struct {
	*testpg.External

	CA *testpg.CA
}

// NewPostgreSQL starts a server with settings as lines of postgresql.conf.
func NewPostgreSQL(t testing.TB, settings ...string) *PostgreSQL {
	t.Helper()
	dir := testpg.Dir(t)
	hba := filepath.Join(dir, "hba.conf")
	if err := os.WriteFile(hba, []byte("local all all trust\nhostssl all all all scram-sha-256\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	ca := testpg.NewCA(t)
	s := &PostgreSQL{External: testpg.NewExternal(t, ca, strings.Join(append(settings, fmt.Sprintf("hba_file = '%s'", hba)), "\n")), CA: ca}
	s.SQL(t, "postgres", "create role "+User+" login password "+quote(Password))
	return s
}

func quote(text string) string {
	return "E'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(text) + "'"
}

// Type is postgresql.
func (*PostgreSQL) Type() backupv1alpha1.ServerType { return backupv1alpha1.ServerPostgreSQL }

// Port of the server.
func (s *PostgreSQL) Port() int32 { return int32(s.External.Port) }

// Create creates an empty database.
func (s *PostgreSQL) Create(t testing.TB, database string) {
	t.Helper()
	s.SQL(t, "postgres", fmt.Sprintf("create database %q owner %s", database, User))
	s.SQL(t, database, "create extension pg_trgm", "comment on extension pg_trgm is 'of the superuser'", "alter schema public owner to "+User)
}

func (s *PostgreSQL) open(t testing.TB, database string) *sql.DB {
	t.Helper()
	config, err := pgx.ParseConfig(fmt.Sprintf("host=%s port=%d user=%s dbname=%s", s.SocketDir(), s.External.Port, User, database))
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*config)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// Connect connects as a superuser until the end of the test.
func (s *PostgreSQL) Connect(t testing.TB, database string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), fmt.Sprintf("host=%s port=%d user=postgres dbname=%s", s.SocketDir(), s.External.Port, database))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// Fill writes rows, a large object, and one object of each common type. A name has a line with a command of psql (CVE-2025-8714).
func (s *PostgreSQL) Fill(t testing.TB, database, marker string) {
	t.Helper()
	command := `\! touch ` + marker
	run(t, s.open(t, database),
		"create schema other", "create type other.mood as enum ('happy', 'traurig 😀')", "create domain other.small as int check (value < 100)",
		"create table items (id serial primary key, name text, data bytea, at timestamptz, mood other.mood, doc jsonb, list int[])",
		`insert into items (name, data, at, mood, doc, list) select 'näme 😀 \' || i || E'\n\\.\n', decode(repeat(md5(i::text), 8), 'hex') || '\x00ff0a'::bytea,
		now() + i * interval '1 s', 'traurig 😀', jsonb_build_object('i', i, 'x', null), array[i, null] from generate_series(1, 2000) i`,
		"insert into items (name) values (null), (''), ("+quote("\n"+command+"\n")+")",
		fmt.Sprintf("create table %q (id int references items)", "new\n"+command+"\nline"), fmt.Sprintf("insert into %q values (1), (null)", "new\n"+command+"\nline"),
		"create index on items using gin (name gin_trgm_ops)", "create view other.names as select name from items",
		"create materialized view other.ids as select id from items", "create function other.twice(i int) returns int language sql as 'select 2 * i'",
		"create procedure nothing() language sql as ''", "create table other.parts (id int, v other.small) partition by range (id)",
		"create table other.part1 partition of other.parts for values from (0) to (10)", "insert into other.parts values (1, 99)",
		"create statistics other.st on id, name from items", "create publication pub for table items", "comment on table items is "+quote("x\n"+command),
		"select lo_from_bytea(0, decode(repeat('00ff', 100000), 'hex'))", "alter default privileges in schema other grant select on tables to public",
	)
}

// Checksum is one of all rows, large objects and names.
func (s *PostgreSQL) Checksum(t testing.TB, database string) string {
	t.Helper()
	return checksum(t, s.open(t, database),
		`select format('select t::text from %I.%I t order by 1', n.nspname, relname) from pg_class c join pg_namespace n on n.oid = relnamespace
		where nspname !~ '^pg_' and nspname <> 'information_schema' and relkind in ('r', 'm') order by 1`,
		"select nspname || '.' || relname, relkind::text from pg_class join pg_namespace n on n.oid = relnamespace where nspname in ('public', 'other') order by 1",
		"select proname from pg_proc join pg_namespace n on n.oid = pronamespace where nspname in ('public', 'other') order by 1",
		"select typname from pg_type join pg_namespace n on n.oid = typnamespace where nspname in ('public', 'other') order by 1",
		"select extname from pg_extension order by 1", "select pubname from pg_publication order by 1",
		"select md5(lo_get(oid)) from pg_largeobject_metadata order by 1")
}
