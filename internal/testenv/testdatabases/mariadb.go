package testdatabases

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

// MariaDB is a server for backups of type mysql.
type MariaDB struct {
	port   int
	socket string
}

// NewMariaDB starts a server.
func NewMariaDB(t testing.TB) *MariaDB {
	t.Helper()
	dir := testpg.Dir(t)
	s := &MariaDB{port: testpg.Port(t), socket: filepath.Join(dir, "socket")}
	data := mkdir(t, dir, "data")
	install := command(t, dir, "mariadb-install-db", "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db")
	if output, err := install.CombinedOutput(); err != nil {
		t.Fatalf("mariadb-install-db (hack/databases.sh installs it): %v: %s", err, output)
	}
	root := s.open(t, "root", "")
	start(t, command(t, dir, "/usr/sbin/mariadbd", "--no-defaults", "--datadir="+data,
		fmt.Sprintf("--port=%d", s.port), "--bind-address=127.0.0.1", "--socket="+s.socket, "--pid-file="+filepath.Join(dir, "pid"),
		"--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M", "--local-infile=1"),
		root.PingContext)
	password := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(Password)
	// Without a right on a database, nobody learns that it does not exist.
	run(t, root, "create user "+User+"@'%' identified by '"+password+"'", "grant all on `nothing`.* to "+User+"@'%'")
	return s
}

func (s *MariaDB) open(t testing.TB, user, database string) *sql.DB {
	t.Helper()
	config := mysql.NewConfig()
	config.Net, config.Addr, config.User, config.DBName, config.Logger = "unix", s.socket, user, database, &mysql.NopLogger{}
	if user == User {
		config.Passwd = Password
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// Type is mysql.
func (*MariaDB) Type() backupv1alpha1.ServerType { return backupv1alpha1.ServerMySQL }

// Port of the server.
func (s *MariaDB) Port() int32 { return int32(s.port) }

// Create creates an empty database.
func (s *MariaDB) Create(t testing.TB, database string) {
	t.Helper()
	// The right to read routines is one on the system table in MariaDB.
	run(t, s.open(t, "root", ""), "create database `"+database+"` character set utf8mb4 collate utf8mb4_bin",
		"grant all on `"+database+"`.* to "+User+"@'%'", "grant select on mysql.proc to "+User+"@'%'")
}

// Fill writes rows, a view, routines, a trigger and an event. Rows have lines with commands of the client.
func (s *MariaDB) Fill(t testing.TB, database, marker string) {
	t.Helper()
	db := s.open(t, User, database)
	run(t, db, "create table items (id int primary key auto_increment, name text, data longblob, at datetime(6), doc json, n decimal(20, 5))",
		"insert into items (name, data, at, doc, n) select concat('näme 😀 ', seq, '\\\\ \\n'), unhex(concat('00ff0a0d1a27', repeat(md5(seq), 8))), "+
			"'2026-11-23 12:00:00.123456' + interval seq second, json_object('i', seq), seq / 7 from seq_1_to_2000",
		"create table other (id int primary key, item int, foreign key (item) references items (id))", "insert into other values (1, 1), (2, null)",
		"create view names as select name from items", "create procedure nothing() select 1", "create function twice(i int) returns int deterministic return 2 * i",
		"create trigger stamp before insert on other for each row set new.item = new.item",
		"create event later on schedule at current_timestamp + interval 1 year do select 1")
	for _, text := range []string{"", "\n\\! touch " + marker + "\n", "\nsystem touch " + marker + "\n;\n", "';\n\\! touch " + marker + "\n-- Dump completed\n"} {
		if _, err := db.ExecContext(t.Context(), "insert into items (name) values (?)", text); err != nil {
			t.Fatal(err)
		}
	}
}

// Checksum is one of all rows and names.
func (s *MariaDB) Checksum(t testing.TB, database string) string {
	t.Helper()
	return checksum(t, s.open(t, User, database),
		"select concat('select * from `', table_name, '` order by 1') from information_schema.tables where table_schema = database() order by 1",
		"select routine_name, routine_type from information_schema.routines where routine_schema = database() order by 1",
		"select trigger_name from information_schema.triggers where trigger_schema = database() order by 1",
		"select event_name from information_schema.events where event_schema = database() order by 1",
		"select @@character_set_database, @@collation_database")
}
