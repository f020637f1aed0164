package runner

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/job"
)

// mysqlServer dumps MySQL by mysqldump and MariaDB by mariadb-dump.
type mysqlServer struct {
	run    *run
	server job.Server
}

func (*mysqlServer) extension() string { return ".sql" }

// Programs of MariaDB come first: older images of MariaDB have both names.
var (
	mysqlDumpPrograms = []string{"mariadb-dump", "mysqldump"}
	mysqlPrograms     = []string{"mariadb", "mysql"}
)

func isMariaDB(program string) bool { return strings.HasPrefix(program, "mariadb") }

func (m *mysqlServer) inspect(ctx context.Context, database job.Database) (info, error) {
	db, err := m.open(database)
	if err != nil {
		return info{}, err
	}
	defer db.Close() //nolint:errcheck // all results were read
	i := info{}
	err = db.QueryRowContext(ctx, `select version(), (select coalesce(sum(data_length + index_length), 0) from information_schema.tables where table_schema = database()),
(select count(*) from information_schema.tables where table_schema = database()) +
(select count(*) from information_schema.routines where routine_schema = database()) +
(select count(*) from information_schema.events where event_schema = database())`).Scan(&i.version, &i.size, &i.objects)
	if err != nil {
		return i, m.failure(database, err)
	}
	return i, nil
}

func (m *mysqlServer) open(database job.Database) (*sql.DB, error) {
	l, err := m.run.login(m.server, database)
	if err != nil {
		return nil, err
	}
	config := mysql.NewConfig()
	config.Net, config.Addr = "tcp", address(m.server)
	if filepath.IsAbs(m.server.Host) {
		config.Net, config.Addr = "unix", m.server.Host
	}
	config.User, config.Passwd, config.DBName = l.user, l.password, database.Name
	config.Timeout = connectTimeout
	config.Logger = &mysql.NopLogger{} // its errors are returned as well
	if m.server.TLS == backupv1alpha1.TLSPrefer || m.server.TLS == "" {
		config.TLSConfig = "preferred"
	} else if config.TLS, err = m.run.tlsConfig(m.server); err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, refuse(backupv1alpha1.ReasonServerRejected, "connection settings of database %s: %w", database.Name, err)
	}
	return sql.OpenDB(connector), nil
}

// Errors of MySQL and MariaDB.
const (
	mysqlDatabaseDenied  = 1044
	mysqlLoginDenied     = 1045
	mysqlUnknownDatabase = 1049
	mysqlTableDenied     = 1142
	mysqlLoginPlugin     = 1698
)

func (m *mysqlServer) failure(database job.Database, err error) error {
	answer, answered := errors.AsType[*mysql.MySQLError](err)
	if !answered {
		return connectionFailure(m.server, err)
	}
	switch answer.Number {
	case mysqlUnknownDatabase:
		return refuse(backupv1alpha1.ReasonDatabaseMissing, "database %s does not exist: create it, or correct its name", database.Name)
	case mysqlDatabaseDenied:
		return refuse(backupv1alpha1.ReasonServerRejected, "database %s does not exist, or the user has no right to it: %s: create the database, or grant the right",
			database.Name, answer.Message)
	case mysqlLoginDenied, mysqlTableDenied, mysqlLoginPlugin:
		return refuse(backupv1alpha1.ReasonServerRejected, "the server rejects the login to database %s: %s: correct the Secret or the permissions",
			database.Name, answer.Message)
	}
	return fail(backupv1alpha1.ReasonServerRejected, "database %s: %s", database.Name, answer.Message)
}

// usesTLS says if the server accepts TLS in mode prefer: the clients of MariaDB and MySQL understand it differently.
func (m *mysqlServer) usesTLS(ctx context.Context, database job.Database) (bool, error) {
	db, err := m.open(database)
	if err != nil {
		return false, err
	}
	defer db.Close() //nolint:errcheck // all results were read
	var name, cipher string
	if err := db.QueryRowContext(ctx, "show session status like 'Ssl_cipher'").Scan(&name, &cipher); err != nil {
		return false, m.failure(database, err)
	}
	return cipher != "", nil
}

// optionFile has the connection and the password for a program.
func (m *mysqlServer) optionFile(ctx context.Context, database job.Database, program string) (path string, remove func(), err error) {
	l, err := m.run.login(m.server, database)
	if err != nil {
		return "", nil, err
	}
	encrypted, err := m.usesTLS(ctx, database)
	if err != nil {
		return "", nil, err
	}
	options := [][2]string{{"protocol", "tcp"}, {"host", m.server.Host}, {"port", strconv.Itoa(int(m.server.Port))}, {"user", l.user}, {"password", l.password}}
	if filepath.IsAbs(m.server.Host) {
		options = [][2]string{{"protocol", "socket"}, {"socket", m.server.Host}, {"user", l.user}}
	}
	options = append(options, m.tlsOptions(isMariaDB(program), encrypted)...)
	var text strings.Builder
	text.WriteString("[client]\n")
	for _, option := range options {
		fmt.Fprintf(&text, "%s=\"%s\"\n", option[0], strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`).Replace(option[1]))
	}
	return m.run.secretFile(text.String())
}

// tlsOptions are the options of the programs. encrypted says if the connection by Go has TLS.
func (m *mysqlServer) tlsOptions(mariaDB, encrypted bool) [][2]string {
	verify := m.server.TLS == backupv1alpha1.TLSVerifyCA || m.server.TLS == backupv1alpha1.TLSVerifyFull
	switch {
	case mariaDB && !encrypted:
		return [][2]string{{"ssl", "0"}}
	case mariaDB && verify: // it has no mode that checks the CA and not the name
		return [][2]string{{"ssl", "1"}, {"ssl-verify-server-cert", "1"}, {"ssl-ca", m.run.caFile(m.server)}}
	case mariaDB:
		return [][2]string{{"ssl", "1"}, {"ssl-verify-server-cert", "0"}}
	case !encrypted:
		return [][2]string{{"ssl-mode", "DISABLED"}, {"get-server-public-key", "1"}}
	case m.server.TLS == backupv1alpha1.TLSVerifyCA:
		return [][2]string{{"ssl-mode", "VERIFY_CA"}, {"ssl-ca", m.run.caFile(m.server)}}
	case verify:
		return [][2]string{{"ssl-mode", "VERIFY_IDENTITY"}, {"ssl-ca", m.run.caFile(m.server)}}
	}
	return [][2]string{{"ssl-mode", "REQUIRED"}}
}

func (m *mysqlServer) dump(database job.Database) source {
	return func(ctx context.Context, out io.Writer) error {
		name, err := find(mysqlDumpPrograms...)
		if err != nil {
			return err
		}
		options, remove, err := m.optionFile(ctx, database, name)
		if err != nil {
			return err
		}
		defer remove()
		arguments := []string{
			"--defaults-file=" + options, "--single-transaction", "--quick", "--routines", "--events", "--triggers", "--hex-blob", "--no-tablespaces",
			"--default-character-set=utf8mb4", "--max-allowed-packet=1G",
		}
		if !isMariaDB(name) {
			// The state of replication belongs to the server, and MariaDB has no column statistics.
			arguments = append(arguments, "--set-gtid-purged=OFF", "--column-statistics=0")
		}
		return m.run.execute(ctx, program{name: name, args: append(arguments, database.Name)}, out)
	}
}

// errNoTrailer is a dump without the last line that mysqldump writes after everything else.
var errNoTrailer = errors.New(`the last line is not "-- Dump completed"`)

func (*mysqlServer) complete(_ context.Context, dump io.Reader) error {
	end := &tail{limit: 1 << 10}
	if _, err := io.Copy(end, dump); err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(end.kept)), "\n")
	if !strings.HasPrefix(lines[len(lines)-1], "-- Dump completed") {
		return errNoTrailer
	}
	return nil
}

// tail keeps the last bytes.
type tail struct {
	kept  []byte
	limit int
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p[max(0, len(p)-t.limit):]...)
	t.kept = t.kept[max(0, len(t.kept)-t.limit):]
	return len(p), nil
}

func (m *mysqlServer) programs(ctx context.Context, _ string) (map[string]string, error) {
	versions := map[string]string{}
	for _, names := range [][]string{mysqlDumpPrograms, mysqlPrograms} {
		name, err := find(names...)
		if err != nil {
			return nil, err
		}
		version, err := m.run.capture(ctx, program{name: name, args: []string{"--version"}})
		if err != nil {
			return nil, err
		}
		versions[name] = strings.TrimSpace(version)
	}
	return versions, nil
}

func (m *mysqlServer) prepare(ctx context.Context, dump io.Reader) (toc string, err error) {
	return "", m.complete(ctx, dump)
}

// clear creates the database again, with its character set and collation. Grants on it remain.
func (m *mysqlServer) clear(ctx context.Context, database job.Database) error {
	db, err := m.open(database)
	if err != nil {
		return err
	}
	defer db.Close() //nolint:errcheck // all results were read
	var charset, collation string
	if err := db.QueryRowContext(ctx, "select @@character_set_database, @@collation_database").Scan(&charset, &collation); err != nil {
		return m.failure(database, err)
	}
	name := "`" + strings.ReplaceAll(database.Name, "`", "``") + "`"
	for _, statement := range []string{"drop database " + name, "create database " + name + " character set " + charset + " collate " + collation} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return m.failure(database, err)
		}
	}
	return nil
}

// restore runs the SQL of the dump. Dumps are data: --binary-mode turns off the commands of the client, such as \! and source, and a
// dump must not read files of this pod.
func (m *mysqlServer) restore(ctx context.Context, _ string, to job.Database, _ string, dump io.Reader) error {
	name, err := find(mysqlPrograms...)
	if err != nil {
		return err
	}
	options, remove, err := m.optionFile(ctx, to, name)
	if err != nil {
		return err
	}
	defer remove()
	return m.run.execute(ctx, program{
		name: name, in: dump,
		args: []string{"--defaults-file=" + options, "--batch", "--binary-mode", "--local-infile=0", "--default-character-set=utf8mb4", "--max-allowed-packet=1G", to.Name},
	}, nil)
}
