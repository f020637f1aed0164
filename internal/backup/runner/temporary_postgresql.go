package runner

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/job"
	"github.com/fettle-dev/fettle/internal/backup/temporary"
	"github.com/fettle-dev/fettle/internal/postgres/config"
)

// temporaryPostgreSQL is restored into by a role that owns the databases and is no superuser: a dump whose functions run during the
// restore gets no access to files or programs.
type temporaryPostgreSQL struct {
	*postgresql
}

// restoreRole owns the databases of a Logical backup.
const restoreRole = "fettle_restore"

func newTemporaryPostgreSQL(r *run, folder string) temporaryPostgreSQL {
	const port = 5432
	return temporaryPostgreSQL{&postgresql{run: r, server: job.Server{
		Type: backupv1alpha1.ServerPostgreSQL, Host: temporary.PostgreSQLFolder(folder), Port: port, TLS: backupv1alpha1.TLSDisable, Username: restoreRole,
	}}}
}

// as connects as another role.
func (p temporaryPostgreSQL) as(ctx context.Context, role, database string) (*pgx.Conn, error) {
	other := *p.postgresql
	other.server.Username = role
	return other.connect(ctx, job.Database{Name: database, Login: -1})
}

// extensions are those in a table of contents.
var extensions = regexp.MustCompile(`(?m)^\d+; \d+ \d+ EXTENSION - (\S+) `)

// setUp creates the database, and the extensions that only a superuser can create.
func (p temporaryPostgreSQL) setUp(ctx context.Context, database job.Database, toc string) error {
	err := p.execSuper(ctx, "postgres", "create role "+restoreRole+" login")
	if known, ok := errors.AsType[*pgconn.PgError](err); err != nil && (!ok || known.Code != "42710") { // duplicate_object
		return p.failure(database, err)
	}
	if database.Name == "postgres" { // it exists, and is empty
		err = p.execSuper(ctx, database.Name, "alter database postgres owner to "+restoreRole)
	} else {
		err = p.execSuper(ctx, "postgres", fmt.Sprintf("create database %s owner %s template template0", pgx.Identifier{database.Name}.Sanitize(), restoreRole))
	}
	if err != nil {
		return p.failure(database, err)
	}
	var names []string
	for _, match := range extensions.FindAllStringSubmatch(toc+" ", -1) {
		names = append(names, match[1])
	}
	conn, err := p.as(ctx, config.Superuser, database.Name)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // all results were read
	rows, err := conn.Query(ctx, `select e.name from pg_available_extensions e join pg_available_extension_versions v on v.name = e.name and v.version = e.default_version
		where e.name = any($1) and not v.trusted`, names)
	if err != nil {
		return p.failure(database, err)
	}
	untrusted, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, name := range untrusted {
		if err == nil {
			_, err = conn.Exec(ctx, fmt.Sprintf("create extension if not exists %s schema public cascade", pgx.Identifier{name}.Sanitize()))
		}
	}
	if err != nil {
		return p.failure(database, err)
	}
	return nil
}

func (p temporaryPostgreSQL) execSuper(ctx context.Context, database, statement string) error {
	conn, err := p.as(ctx, config.Superuser, database)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // all results were read
	_, err = conn.Exec(ctx, statement)
	return err
}

func (p temporaryPostgreSQL) databases(ctx context.Context) ([]string, error) {
	conn, err := p.as(ctx, config.Superuser, "postgres")
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx) //nolint:errcheck // all results were read
	rows, err := conn.Query(ctx, `select datname from pg_database where datallowconn and not datistemplate order by 1`)
	if err != nil {
		return nil, p.failure(job.Database{Name: "postgres"}, err)
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// pgTables are the tables and materialized views with rows of their own. Views and foreign tables are left out: to read them runs
// functions of users, or connects to other servers.
const pgTables = `select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'm') and c.relispopulated and c.relpersistence <> 't' and n.nspname !~ '^pg_' and n.nspname <> 'information_schema' order by 1, 2`

// count reads tables as a superuser, whom row security does not restrict. Nothing of users runs.
func (p temporaryPostgreSQL) count(ctx context.Context, database string) (tables, rows int64, err error) {
	conn, err := p.as(ctx, config.Superuser, database)
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close(ctx) //nolint:errcheck // all results were read
	found, err := conn.Query(ctx, pgTables)
	if err != nil {
		return 0, 0, p.failure(job.Database{Name: database}, err)
	}
	names, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (name pgx.Identifier, err error) {
		name = make(pgx.Identifier, 2)
		return name, row.Scan(&name[0], &name[1])
	})
	if err != nil {
		return 0, 0, p.failure(job.Database{Name: database}, err)
	}
	for _, name := range names {
		var n int64
		if err := conn.QueryRow(ctx, "select count(*) from only "+name.Sanitize()).Scan(&n); err != nil {
			return tables, rows, refuse(backupv1alpha1.ReasonVerificationFailed, "table %s of database %s cannot be read: %w", name.Sanitize(), database, err)
		}
		tables, rows = tables+1, rows+n
	}
	return tables, rows, nil
}

// readAllMajor is the first version with the role pg_read_all_data.
const readAllMajor = 14

// query runs in a read-only transaction of a new role with a name that the backup cannot know.
func (p temporaryPostgreSQL) query(ctx context.Context, database, sql string) (*string, error) {
	super, err := p.as(ctx, config.Superuser, database)
	if err != nil {
		return nil, err
	}
	defer super.Close(ctx) //nolint:errcheck // all results were read
	role := "fettle_query_" + rand.Text()
	statements := []string{fmt.Sprintf(`create role %q login bypassrls`, role)}
	if major(super.PgConn().ParameterStatus("server_version")) >= readAllMajor {
		statements = append(statements, fmt.Sprintf(`grant pg_read_all_data to %q`, role))
	} else {
		statements = append(statements, fmt.Sprintf(`grant usage on schema public to %q`, role), fmt.Sprintf(`grant select on all tables in schema public to %q`, role))
	}
	for _, statement := range statements {
		if _, err := super.Exec(ctx, statement); err != nil {
			return nil, p.failure(job.Database{Name: database}, err)
		}
	}
	conn, err := p.as(ctx, role, database)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx) //nolint:errcheck // all results were read
	for _, statement := range []string{`set search_path = "$user", public`, "set default_transaction_read_only = on"} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return nil, p.failure(job.Database{Name: database}, err)
		}
	}
	// One statement: the extended protocol takes no more. The rows are not kept.
	result := conn.PgConn().ExecParams(ctx, sql, nil, nil, nil, nil)
	var value *string
	for first := true; result.NextRow(); first = false {
		if values := result.Values(); first && len(values) > 0 && values[0] != nil {
			value = new(string(values[0]))
		}
	}
	if _, err := result.Close(); err != nil {
		return nil, refuse(backupv1alpha1.ReasonVerificationFailed, "query in database %s: %w", database, err)
	}
	return value, nil
}
