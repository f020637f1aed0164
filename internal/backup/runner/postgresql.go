package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/job"
)

// postgresql dumps by pg_dump in the custom format. Its data is not SQL for psql, so that no meta-command of a dump can be run
// (CVE-2025-8714).
type postgresql struct {
	run    *run
	server job.Server
}

func (p *postgresql) extension() string { return ".dump" }

// objects are the objects of users in the database, without those of extensions.
const objects = `
with members as (select classid, objid from pg_depend where deptype = 'e'),
schemas as (select oid, nspname from pg_namespace where nspname !~ '^pg_' and nspname <> 'information_schema'),
objects as (
  select classid, objid from pg_depend join schemas on refclassid = 'pg_namespace'::regclass and refobjid = schemas.oid
    where deptype = 'n' and classid <> 'pg_extension'::regclass
  union select 'pg_publication'::regclass, oid from pg_publication
  union select 'pg_event_trigger'::regclass, oid from pg_event_trigger
  union select 'pg_foreign_server'::regclass, oid from pg_foreign_server
  union select 'pg_foreign_data_wrapper'::regclass, oid from pg_foreign_data_wrapper
  except select classid, objid from members
)`

// dropStatements drop the objects, and then the schemas in which no extension has anything. IF EXISTS, because CASCADE drops further ones.
const dropStatements = objects + `
select 'drop ' || case o.type when 'statistics object' then 'statistics' when 'foreign-data wrapper' then 'foreign data wrapper' else o.type end
  || ' if exists ' || o.identity || ' cascade'
  from objects, pg_identify_object(classid, objid, 0) o where o.type <> 'default acl'
union all
select format('drop schema if exists %I cascade', nspname) from schemas s where nspname <> 'public'
  and not exists (select from members where classid = 'pg_namespace'::regclass and objid = s.oid)
  and not exists (select from pg_extension where extnamespace = s.oid)
  and not exists (select from pg_depend d join members using (classid, objid) where d.refclassid = 'pg_namespace'::regclass and d.refobjid = s.oid)`

func (p *postgresql) inspect(ctx context.Context, database job.Database) (info, error) {
	conn, err := p.connect(ctx, database)
	if err != nil {
		return info{}, err
	}
	defer conn.Close(ctx) //nolint:errcheck // all results were read
	i := info{version: conn.PgConn().ParameterStatus("server_version")}
	err = conn.QueryRow(ctx, objects+`
select pg_database_size(current_database()), (select count(*) from objects) + (select count(*) from pg_largeobject_metadata)`).Scan(&i.size, &i.objects)
	if err != nil {
		return i, p.failure(database, err)
	}
	return i, nil
}

// connect opens a connection, with a search_path in which users have nothing.
func (p *postgresql) connect(ctx context.Context, database job.Database) (*pgx.Conn, error) {
	l, err := p.run.login(p.server, database)
	if err != nil {
		return nil, err
	}
	config, err := pgx.ParseConfig(p.connString(database, l))
	if err != nil {
		return nil, refuse(backupv1alpha1.ReasonServerRejected, "connection settings of database %s: %w", database.Name, err)
	}
	config.Password = l.password
	config.RuntimeParams["search_path"] = "pg_catalog"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, p.failure(database, err)
	}
	return conn, nil
}

// failure is the reason for an error of the server.
func (p *postgresql) failure(database job.Database, err error) error {
	pgErr, answered := errors.AsType[*pgconn.PgError](err)
	switch {
	case !answered:
		return connectionFailure(p.server, err)
	case pgErr.Code == "3D000": // invalid_catalog_name
		return refuse(backupv1alpha1.ReasonDatabaseMissing, "database %s does not exist: create it, or correct its name", database.Name)
	case strings.HasPrefix(pgErr.Code, "28"), pgErr.Code == "42501": // invalid_authorization_specification, insufficient_privilege
		return refuse(backupv1alpha1.ReasonServerRejected, "the server rejects the login to database %s: %s: correct the Secret or the permissions",
			database.Name, pgErr.Message)
	case strings.HasPrefix(pgErr.Code, "57"), pgErr.Code == "53300": // starting, stopping, or out of connections
		return fail(backupv1alpha1.ReasonServerUnreachable, "the server is not available: %s", pgErr.Message)
	}
	return fail(backupv1alpha1.ReasonServerRejected, "database %s: %s", database.Name, strings.TrimSpace(pgErr.Message+" "+pgErr.Hint))
}

// connString is for libpq and pgx. It has no password.
func (p *postgresql) connString(database job.Database, l login) string {
	mode, ca := p.server.TLS, ""
	if mode == backupv1alpha1.TLSVerifyCA || mode == backupv1alpha1.TLSVerifyFull {
		ca = p.run.caFile(p.server)
	}
	var text strings.Builder
	for _, pair := range [][2]string{
		{"host", p.server.Host}, {"port", strconv.Itoa(int(p.server.Port))}, {"user", l.user}, {"dbname", database.Name},
		{"sslmode", string(mode)}, {"sslrootcert", ca}, {"connect_timeout", "10"}, {"application_name", "fettle-backup"},
	} {
		if pair[1] != "" {
			fmt.Fprintf(&text, "%s='%s' ", pair[0], strings.NewReplacer(`'`, `\'`, `\`, `\\`).Replace(pair[1]))
		}
	}
	return text.String()
}

// execute runs a program with a connection string as --dbname.
func (p *postgresql) execute(ctx context.Context, database job.Database, name string, arguments []string, in io.Reader, out io.Writer) error {
	l, err := p.run.login(p.server, database)
	if err != nil {
		return err
	}
	file, remove, err := p.run.secretFile("*:*:*:*:" + strings.NewReplacer(`\`, `\\`, `:`, `\:`).Replace(l.password) + "\n")
	if err != nil {
		return err
	}
	defer remove()
	return p.run.execute(ctx, program{
		name: name, args: append(arguments, "--no-password", "--dbname="+p.connString(database, l)), env: []string{"PGPASSFILE=" + file}, in: in,
	}, out)
}

func (p *postgresql) dump(database job.Database) source {
	return func(ctx context.Context, out io.Writer) error {
		return p.execute(ctx, database, "pg_dump", []string{"--format=custom", "--compress=0"}, nil, out)
	}
}

// complete reads the whole dump, not only its table of contents as pg_restore --list does.
func (p *postgresql) complete(ctx context.Context, dump io.Reader) error {
	return p.run.execute(ctx, program{name: "pg_restore", args: []string{"--file=/dev/null"}, in: dump}, nil)
}

func (p *postgresql) programs(ctx context.Context, atLeast string) (map[string]string, error) {
	versions := map[string]string{}
	for _, name := range []string{"pg_dump", "pg_restore"} {
		if _, err := find(name); err != nil {
			return nil, err
		}
		text, err := p.run.capture(ctx, program{name: name, args: []string{"--version"}})
		if err != nil {
			return nil, err
		}
		_, version, _ := strings.Cut(text, ") ") // pg_dump (PostgreSQL) 17.2 (Debian 17.2-1)
		versions[name] = strings.TrimSpace(version)
		if major(version) < major(atLeast) {
			return nil, refuse(backupv1alpha1.ReasonProgramMissing, "%s of the image has version %s, and the server or the dump has %s: set pod.image to an image of version %d",
				name, versions[name], atLeast, major(atLeast))
		}
	}
	return versions, nil
}

// major is the number that a version starts with.
func major(version string) int {
	end := strings.IndexFunc(version, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(version)
	}
	number, err := strconv.Atoi(version[:end])
	if err != nil {
		return 0
	}
	return number
}

func (p *postgresql) prepare(ctx context.Context, dump io.Reader) (toc string, err error) {
	return p.run.capture(ctx, program{name: "pg_restore", args: []string{"--list"}, in: dump})
}

// lockCapacity queries how many locks all transactions of the server can hold together.
const lockCapacity = `select current_setting('max_locks_per_transaction')::bigint * current_setting('max_connections')::bigint`

const (
	// locksOfNew are those of a new table: its own, and those of the table and index for its large values.
	locksOfNew = 3
	// locksOfDropped are those of a dropped table, which has indexes too.
	locksOfDropped = 5
)

// clear drops all objects, and leaves the database and its extensions. It is one transaction, unless the server has too few locks.
func (p *postgresql) clear(ctx context.Context, database job.Database) error {
	conn, err := p.connect(ctx, database)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // all results were read
	if err := p.drop(ctx, conn); err != nil {
		return p.failure(database, err)
	}
	return nil
}

func (p *postgresql) drop(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, dropStatements)
	if err != nil {
		return err
	}
	statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	var locks, capacity int64
	err = conn.QueryRow(ctx, "select (select count(*) from pg_largeobject_metadata), ("+lockCapacity+")").Scan(&locks, &capacity)
	if err != nil {
		return err
	}
	locks += locksOfDropped * int64(len(statements))
	if locks <= capacity {
		return execute(ctx, conn, append(statements, "select lo_unlink(oid) from pg_largeobject_metadata"))
	}
	p.run.Log.Info("dropping objects in several transactions", "locks", locks, "capacity", capacity)
	few := max(1, capacity/2/locksOfDropped)
	for batch := range slices.Chunk(statements, int(few)) {
		if err := execute(ctx, conn, batch); err != nil {
			return err
		}
	}
	for {
		unlinked, err := conn.Exec(ctx, fmt.Sprintf("select lo_unlink(oid) from (select oid from pg_largeobject_metadata limit %d) objects", few))
		if err != nil || unlinked.RowsAffected() == 0 {
			return err
		}
	}
}

// execute runs statements in one transaction.
func execute(ctx context.Context, conn *pgx.Conn, statements []string) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for _, statement := range statements {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}

func (p *postgresql) restore(ctx context.Context, _ string, to job.Database, toc string, dump io.Reader) error {
	conn, err := p.connect(ctx, to)
	if err != nil {
		return err
	}
	rows, err := conn.Query(ctx, `select 'SCHEMA - ' || nspname || ' ' from pg_namespace
union all select 'EXTENSION - ' || extname || ' ' from pg_extension union all values ('COMMENT - EXTENSION '), ('COMMENT - SCHEMA public ')`)
	var present []string
	if err == nil {
		present, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	capacity := int64(0)
	if err == nil {
		err = conn.QueryRow(ctx, lockCapacity).Scan(&capacity)
	}
	_ = conn.Close(ctx)
	if err != nil {
		return p.failure(to, err)
	}
	list, remove, err := p.run.secretFile(without(toc, present))
	if err != nil {
		return err
	}
	defer remove()
	arguments := []string{"--exit-on-error", "--no-owner", "--no-privileges", "--no-tablespaces", "--no-subscriptions", "--use-list=" + list}
	if locks := locksOf(toc); locks <= capacity {
		arguments = append(arguments, "--single-transaction")
	} else {
		p.run.Log.Info("restoring in several transactions", "locks", locks, "capacity", capacity)
	}
	return p.execute(ctx, to, "pg_restore", arguments, dump, nil)
}

// locksOf estimates how many locks a transaction holds in the end that creates all entries of a table of contents.
func locksOf(toc string) (locks int64) {
	for line := range strings.Lines(toc) {
		entry := strings.SplitN(line, " ", 4) // 215; 1259 16390 TABLE public items app
		switch {
		case strings.HasPrefix(line, ";"), len(entry) < 4, hasAnyPrefix(entry[3], []string{"TABLE DATA ", "SEQUENCE SET ", "BLOB"}):
		case strings.HasPrefix(entry[3], "TABLE "):
			locks += locksOfNew
		default:
			locks++
		}
	}
	return locks
}

// without leaves out the entries of a table of contents that the target has: "3; 3079 16385 EXTENSION - hstore ". Only superusers could
// create or comment on them again.
func without(toc string, present []string) string {
	var kept strings.Builder
	for line := range strings.Lines(toc) {
		entry := strings.SplitN(strings.TrimRight(line, "\n"), " ", 4)
		if strings.HasPrefix(line, ";") || len(entry) < 4 || !hasAnyPrefix(entry[3]+" ", present) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

func hasAnyPrefix(text string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}
