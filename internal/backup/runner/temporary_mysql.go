package runner

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"strings"
	"sync"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/job"
	"github.com/fettle-dev/fettle/internal/backup/temporary"
)

// temporaryMySQL is restored into by a user without rights beyond the databases, except that the objects of a dump may belong to others.
type temporaryMySQL struct {
	*mysqlServer
	// secure runs once, before anything of the backup.
	secure func(ctx context.Context) error
	// admin is the only user with all rights. The backup cannot know its name: its objects could belong to root.
	admin string
}

func newTemporaryMySQL(r *run, folder string) *temporaryMySQL {
	m := &temporaryMySQL{admin: "fettle_" + strings.ToLower(rand.Text()[:16]), mysqlServer: &mysqlServer{run: r, server: job.Server{
		Type: backupv1alpha1.ServerMySQL, Host: temporary.MySQLSocket(folder), TLS: backupv1alpha1.TLSDisable, Username: restoreRole,
	}}}
	var once sync.Once
	m.secure = func(ctx context.Context) (err error) {
		once.Do(func() { err = m.replaceRoot(ctx) })
		return err
	}
	return m
}

func (m *temporaryMySQL) as(user, database string) (*sql.DB, error) {
	other := *m.mysqlServer
	other.server.Username = user
	return other.open(job.Database{Name: database, Login: -1})
}

// exec runs statements.
func (m *temporaryMySQL) exec(ctx context.Context, user string, statements ...string) error {
	db, err := m.as(user, "")
	if err != nil {
		return err
	}
	defer db.Close() //nolint:errcheck // all results were read
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return m.failure(job.Database{Name: "mysql"}, err)
		}
	}
	return nil
}

const (
	mysqlRestoreUser = "'" + restoreRole + "'@'localhost'"
	mysqlQueryUser   = "'fettle_query'@'localhost'"
)

// replaceRoot gives the rights of root to a user with an unknown name, and creates the other users.
func (m *temporaryMySQL) replaceRoot(ctx context.Context) error {
	db, err := m.as("root", "")
	if err != nil {
		return err
	}
	defer db.Close() //nolint:errcheck // all results were read
	rows, err := db.QueryContext(ctx, "select host from mysql.user where user = 'root' and host <> 'localhost'")
	if err != nil {
		return m.failure(job.Database{Name: "mysql"}, err)
	}
	statements, err := collect(rows, func(host string) string { return "drop user 'root'@'" + strings.ReplaceAll(host, "'", "''") + "'" })
	if err != nil {
		return m.failure(job.Database{Name: "mysql"}, err)
	}
	statements = append(statements, "create user "+mysqlRestoreUser, "create user "+mysqlQueryUser, "rename user 'root'@'localhost' to '"+m.admin+"'@'localhost'")
	if err := m.exec(ctx, "root", statements...); err != nil {
		return err
	}
	// The right to create objects of other users has a name of its own in each version.
	for _, right := range []string{"set user", "set_user_id", "set_any_definer, allow_nonexistent_definer"} {
		if err := m.exec(ctx, m.admin, "grant "+right+" on *.* to "+mysqlRestoreUser); err != nil {
			m.run.Log.Debug("the server does not know a right", "right", right)
		}
	}
	return nil
}

func collect(rows *sql.Rows, from func(string) string) (out []string, err error) {
	defer rows.Close() //nolint:errcheck // Err has the error
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		out = append(out, from(text))
	}
	return out, rows.Err()
}

func mysqlName(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

func (m *temporaryMySQL) setUp(ctx context.Context, database job.Database, _ string) error {
	if err := m.secure(ctx); err != nil {
		return err
	}
	name := mysqlName(database.Name)
	return m.exec(ctx, m.admin, "create database "+name+" character set utf8mb4", "grant all on "+name+".* to "+mysqlRestoreUser,
		"grant select, show view on "+name+".* to "+mysqlQueryUser)
}

func (*temporaryMySQL) databases(context.Context) ([]string, error) {
	return nil, refuse(backupv1alpha1.ReasonBackupUnsuitable, "a Physical backup of MySQL is unknown")
}

// count leaves out views, and tables whose rows are in files or on other servers.
func (m *temporaryMySQL) count(ctx context.Context, database string) (tables, rows int64, err error) {
	db, err := m.as(m.admin, database)
	if err != nil {
		return 0, 0, err
	}
	defer db.Close() //nolint:errcheck // all results were read
	found, err := db.QueryContext(ctx, `select table_name from information_schema.tables where table_schema = database() and table_type = 'BASE TABLE'
and engine not in ('FEDERATED', 'CONNECT', 'SPIDER') order by 1`)
	if err != nil {
		return 0, 0, m.failure(job.Database{Name: database}, err)
	}
	names, err := collect(found, mysqlName)
	if err != nil {
		return 0, 0, m.failure(job.Database{Name: database}, err)
	}
	for _, name := range names {
		var n int64
		if err := db.QueryRowContext(ctx, "select count(*) from "+name).Scan(&n); err != nil { //nolint:gosec // the name is quoted
			return tables, rows, refuse(backupv1alpha1.ReasonVerificationFailed, "table %s of database %s cannot be read: %w", name, database, err)
		}
		tables, rows = tables+1, rows+n
	}
	return tables, rows, nil
}

// query runs in a read-only transaction.
func (m *temporaryMySQL) query(ctx context.Context, database, text string) (*string, error) {
	value, err := m.firstValue(ctx, database, text)
	if err != nil {
		return nil, refuse(backupv1alpha1.ReasonVerificationFailed, "query in database %s: %w", database, err)
	}
	return value, nil
}

func (m *temporaryMySQL) firstValue(ctx context.Context, database, text string) (*string, error) {
	db, err := m.as("fettle_query", database)
	if err != nil {
		return nil, err
	}
	defer db.Close() //nolint:errcheck // all results were read
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	rows, err := tx.QueryContext(ctx, text)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // Err has the error
	columns, err := rows.Columns()
	if err != nil || len(columns) == 0 {
		return nil, err
	}
	var first sql.RawBytes
	values := make([]any, len(columns))
	for i := range values {
		values[i] = new(sql.RawBytes)
	}
	values[0] = &first
	var value *string
	for begun := false; rows.Next(); begun = true {
		if begun {
			continue
		}
		if err := rows.Scan(values...); err != nil {
			return nil, err
		}
		if first != nil {
			value = new(string(first))
		}
	}
	return value, rows.Err()
}
