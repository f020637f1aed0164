package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/job"
	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
	"github.com/fettle-dev/fettle/internal/testenv/teststores"
)

// backupServer is the primary that is backed up.
type backupServer struct {
	*testpg.Instance

	ca         *testpg.CA
	credential *syscall.Credential
	password   string
	size       int64 // of the data directory in bytes, without WAL
}

// backupStore is the object store of all contenders.
type backupStore struct{ teststores.Server }

// size is what it has stored in a folder, in bytes.
func (s *backupStore) size(folder string) int64 {
	return treeSize(filepath.Join(s.Dir, teststores.Bucket, folder))
}

// The folders of Fettle's backups, and the system user that Debian's programs run as.
const (
	backupNamespace = "bench"
	backupName      = "db"
	logicalName     = "logical"
	systemUser      = "postgres"
)

// start starts the store and the server, and fills the database.
func (b *backupBench) start() {
	b.folder = testpg.Dir(b)
	binary, err := os.Executable()
	if err == nil {
		b.program, err = filepath.Join(b.folder, "bench"), copyFile(binary, filepath.Join(b.folder, "bench"), 0o755)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.store = &backupStore{teststores.Start(b, backupv1alpha1.StoreS3)[0]}
	b.server = &backupServer{Instance: testpg.NewWithOutput(b, "db-0", io.Discard), ca: testpg.NewCA(b), credential: testpg.Credential(b), password: rand.Text()}
	b.writeKeys()
	s := b.server
	s.ca.EnableTLS(s.Instance)
	s.Settings.SystemUsers = append(s.Settings.SystemUsers, systemUser)
	s.Settings.Parameters = map[string]string{"shared_buffers": "256MB", "max_wal_size": "1GB"}
	s.Settings.ArchiveCommand = "true"
	if err := s.Init(b.ctx, server.InitOptions{}); err != nil {
		b.Fatal(err)
	}
	s.Start(b)
	if err := s.Client(b).Prepare(b.ctx); err != nil {
		b.Fatal(err)
	}
	b.sql(postgresDatabase, "create role "+pgRole+" login password '"+s.password+"'", "create database "+pgRole+" owner "+pgRole, "create database restored owner "+pgRole)
	if err := b.fill(); err != nil {
		b.Fatal(err)
	}
	s.Settings.ArchiveCommand = b.program + " " + contendCommand + " archive --config " + b.configFile() + " %p %f"
	s.Configure(b)
	b.sql(postgresDatabase, "checkpoint")
	s.size = treeSize(s.DataDir()) - treeSize(filepath.Join(s.DataDir(), "pg_wal"))
	b.Logf("the data directory has %d MiB", s.size>>20)
}

const postgresDatabase = "postgres"

// dsn is a connection through the socket as the superuser.
func (s *backupServer) dsn(database string) string {
	return fmt.Sprintf("host=%s port=%d user=%s dbname=%s", s.SocketDir(), s.Settings.Port, config.Superuser, database)
}

// tcp is a connection with TLS as the owner of the database.
func (s *backupServer) tcp(database string) string {
	return fmt.Sprintf("host=127.0.0.1 port=%d user=%s dbname=%s sslmode=require", s.Settings.Port, pgRole, database)
}

// sql runs statements outside of a transaction.
func (b *backupBench) sql(database string, statements ...string) {
	b.Helper()
	conn, err := pgx.Connect(b.ctx, b.server.dsn(database))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(b.ctx)) //nolint:errcheck // all results were read
	for _, statement := range statements {
		if _, err := conn.Exec(b.ctx, statement); err != nil {
			b.Fatalf("%s: %v", statement, err)
		}
	}
}

// fill writes the tables of pgbench and random bytes: about 1 GiB.
func (b *backupBench) fill() error {
	command := exec.CommandContext(b.ctx, filepath.Join(testpg.Binaries(b).Dir, "pgbench"), "--initialize", "--quiet", "--scale="+strconv.Itoa(b.options.scale), b.server.tcp(pgRole))
	command.Env = append(os.Environ(), "PGPASSWORD="+b.server.password)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("pgbench: %w: %s", err, output)
	}
	conn, err := pgx.Connect(b.ctx, b.server.dsn(pgRole))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(b.ctx)) //nolint:errcheck // all results were read
	if _, err := conn.Exec(b.ctx, "create table noise (content bytea); alter table noise owner to "+pgRole); err != nil {
		return err
	}
	const rows, width = 256 << 10, 1000
	random := mathrand.NewChaCha8([32]byte{1})
	_, err = conn.CopyFrom(b.ctx, pgx.Identifier{"noise"}, []string{"content"}, pgx.CopyFromSlice(rows, func(int) ([]any, error) {
		row := make([]byte, width)
		_, err := random.Read(row)
		return []any{row}, err
	}))
	if err != nil {
		return err
	}
	_, err = conn.Exec(b.ctx, "vacuum (freeze, analyze)")
	return err
}

// root is put before the folders of package job.
func (b *backupBench) root() string { return filepath.Join(b.folder, "root") }

func (b *backupBench) configFile() string { return filepath.Join(b.folder, "config.json") }

// writeKeys writes what the pods of Fettle have mounted, and the files of the other programs.
func (b *backupBench) writeKeys() {
	b.Helper()
	read := func(name string) []byte {
		content, err := os.ReadFile(b.server.ca.File(name))
		if err != nil {
			b.Fatal(err)
		}
		return content
	}
	files := map[string][]byte{
		job.DirStoreCA + "/ca.crt": b.store.Keys.CA, job.DirServerCA + "/ca.crt": read("ca.crt"), job.DirReplication + "/ca.crt": read("ca.crt"),
		job.DirReplication + "/tls.crt": read(config.ReplicationUser + ".crt"), job.DirReplication + "/tls.key": read(config.ReplicationUser + ".key"),
		job.DirLogin(0) + "/username": []byte(pgRole), job.DirLogin(0) + "/password": []byte(b.server.password),
	}
	for name, content := range b.store.Keys.Files {
		files[job.DirStore+"/"+name] = content
	}
	written := map[string][]byte{b.configFile(): []byte(b.physical("wal").Encode()), filepath.Join(b.folder, "pgbackrest.conf"): b.pgBackRestConfig()}
	for name, content := range files {
		written[filepath.Join(b.root(), name)] = content
	}
	for name, content := range written {
		if err := b.mkdir(filepath.Dir(name)); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(name, content, 0o600); err != nil {
			b.Fatal(err)
		}
		b.chown(name)
	}
}

func (b *backupBench) chown(name string) {
	if c := b.server.credential; c != nil {
		if err := os.Chown(name, int(c.Uid), int(c.Gid)); err != nil {
			b.Fatal(err)
		}
	}
}

// mkdir creates a folder for PostgreSQL's user below the folder of the benchmark, and its parents.
func (b *backupBench) mkdir(dir string) error {
	if _, err := os.Stat(dir); err == nil || !strings.HasPrefix(dir, b.folder) {
		return err
	}
	if err := b.mkdir(filepath.Dir(dir)); err != nil {
		return err
	}
	err := os.Mkdir(dir, 0o700)
	b.chown(dir)
	return err
}

func copyFile(from, to string, mode os.FileMode) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, mode)
}
