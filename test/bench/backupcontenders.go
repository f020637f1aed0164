package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/job"
	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
	"github.com/fettle-dev/fettle/internal/testenv/teststores"
)

// backupContender is a program that backs up.
type backupContender struct {
	name, about string
	logical     bool
	// folder in the bucket; "" for a program that stores nothing.
	folder string
	backup func(run string) *exec.Cmd
	// restore is nil for a program that stores nothing. dir is an empty folder.
	restore func(run, dir string) (*exec.Cmd, error)
	check   func(dir string) error
}

// Names of Fettle's contenders.
const (
	fettlePhysical = "fettle-physical"
	fettleLogical  = "fettle-logical"
)

// contenders returns all, in the order of the report.
func (b *backupBench) contenders() []*backupContender {
	all := []*backupContender{
		{
			name: fettlePhysical, folder: filepath.Join(backupNamespace, backupName, "runs"), about: "Fettle, Physical, zstd", backup: func(run string) *exec.Cmd { return b.fettle("backup", b.physical(run)) },
			restore: func(run, dir string) (*exec.Cmd, error) {
				return b.fettle("recover", b.physical(run), "--volume", dir), nil
			}, check: b.dataDir("pgdata.clone"),
		},
		{name: "pg_basebackup", about: "`pg_basebackup` to nothing", backup: b.baseBackup},
		b.pgBackRest(1), b.pgBackRest(2), //nolint:mnd // processes
		b.barman("gzip", "--gzip"), b.barman("none"),
		{
			name: fettleLogical, folder: filepath.Join(backupNamespace, logicalName, "runs"), about: "Fettle, Logical, zstd", logical: true, backup: func(run string) *exec.Cmd { return b.fettle("backup", b.logical(run)) },
			restore: func(run, _ string) (*exec.Cmd, error) {
				b.emptyTarget()
				c := &job.Config{Namespace: backupNamespace, Object: "restore", Restore: &job.Restore{
					From: backupv1alpha1.BackupLocation{Destination: b.store.Destination, Backup: logicalName, Run: b.logical(run).Object}, To: b.target("restored"),
				}}
				return b.fettle("backup", c), nil
			}, check: b.tables,
		},
		{name: "pg_dump-0", about: "`pg_dump -Fc -Z0` to nothing, `pg_restore` of a file", logical: true, backup: b.dump("--compress=0"), restore: b.restoreDump, check: b.tables},
		{name: "pg_dump", about: "`pg_dump -Fc` to nothing", logical: true, backup: b.dump()},
	}
	return slices.DeleteFunc(all, func(c *backupContender) bool {
		return len(b.options.only) > 0 && !slices.Contains(b.options.only, c.name)
	})
}

// fettle runs what a pod of Fettle runs, in this program.
func (b *backupBench) fettle(what string, c *job.Config, arguments ...string) *exec.Cmd {
	arguments = append([]string{contendCommand, what, "--root", b.root(), "--temp", b.folder}, arguments...)
	if b.options.profile != "" {
		arguments = append(arguments, "--profile", filepath.Join(b.options.profile, c.Object+"-"+what+".pprof"))
	}
	command := exec.CommandContext(b.ctx, b.program, arguments...)
	command.Env = b.environment(job.EnvConfig + "=" + c.Encode())
	return command
}

// environment has the programs of the server first in PATH.
func (b *backupBench) environment(more ...string) []string {
	return append([]string{"PATH=" + testpg.Binaries(b).Dir + ":/usr/bin:/bin", "HOME=" + b.folder, "LC_ALL=C.UTF-8"}, more...)
}

func (b *backupBench) physical(run string) *job.Config {
	return &job.Config{Namespace: backupNamespace, Object: "physical-" + run, Backup: &job.Backup{
		Name: backupName, Method: backupv1alpha1.MethodPhysical, Destination: b.store.Destination, Compression: backupv1alpha1.CompressionZstd,
		Server: job.Server{Type: backupv1alpha1.ServerPostgreSQL, Host: "localhost", Port: int32(b.server.Settings.Port)}, Retention: "1c",
	}}
}

// target is the server for Logical backups and restores.
func (b *backupBench) target(database string) job.Server {
	return job.Server{
		Type: backupv1alpha1.ServerPostgreSQL, Host: "127.0.0.1", Port: int32(b.server.Settings.Port), TLS: backupv1alpha1.TLSVerifyFull, VerifyCA: true,
		Databases: []job.Database{{Name: database}},
	}
}

func (b *backupBench) logical(run string) *job.Config {
	c := b.physical(run)
	c.Object, c.Backup.Method, c.Backup.Server, c.Backup.Name = "logical-"+run, backupv1alpha1.MethodLogical, b.target(pgRole), logicalName
	return c
}

// baseBackup is what pg_basebackup itself can do: with the connection and the options of Fettle, and nothing is stored.
func (b *backupBench) baseBackup(string) *exec.Cmd {
	command := exec.CommandContext(b.ctx, filepath.Join(testpg.Binaries(b).Dir, "pg_basebackup"), "--pgdata=-", "--format=tar", "--wal-method=none", "--checkpoint=fast",
		"--no-manifest", "--no-password", "--dbname="+fmt.Sprintf("host=localhost port=%d user=%s sslmode=verify-full sslrootcert=%s sslcert=%s sslkey=%s",
			b.server.Settings.Port, config.ReplicationUser, b.server.ca.File("ca.crt"), b.server.ca.File(config.ReplicationUser+".crt"), b.server.ca.File(config.ReplicationUser+".key")))
	return b.toNothing(command)
}

// toNothing discards the output without this process in between.
func (b *backupBench) toNothing(command *exec.Cmd) *exec.Cmd {
	nothing, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = nothing.Close() })
	command.Stdout, command.Env = nothing, b.environment("PGPASSWORD="+b.server.password)
	return command
}

func (b *backupBench) dump(arguments ...string) func(string) *exec.Cmd {
	return func(string) *exec.Cmd {
		program := filepath.Join(testpg.Binaries(b).Dir, "pg_dump")
		return b.toNothing(exec.CommandContext(b.ctx, program, append(arguments, "--format=custom", "--no-password", "--dbname="+b.server.tcp(pgRole))...))
	}
}

// emptyTarget makes an empty database.
func (b *backupBench) emptyTarget() {
	b.sql(postgresDatabase, "drop database if exists restored", "create database restored owner "+pgRole)
}

// restoreDump restores a dump from a file with the options of Fettle.
func (b *backupBench) restoreDump(_, dir string) (*exec.Cmd, error) {
	b.emptyTarget()
	file := filepath.Join(dir, "dump")
	dump := b.dump("--compress=0", "--file="+file)("")
	if _, err := b.run(dump); err != nil {
		return nil, err
	}
	command := exec.CommandContext(b.ctx, filepath.Join(testpg.Binaries(b).Dir, "pg_restore"), "--exit-on-error", "--single-transaction", "--no-owner", "--no-privileges",
		"--no-password", "--dbname="+b.server.tcp("restored"), file)
	command.Env = b.environment("PGPASSWORD=" + b.server.password)
	return command, nil
}

// tables checks that the restored database has rows, and removes it.
func (b *backupBench) tables(string) error {
	b.sql("restored", "select 1 / count(*) from pgbench_accounts", "select 1 / count(*) from noise")
	b.sql(postgresDatabase, "drop database restored")
	return nil
}

// dataDir checks that a folder has a data directory.
func (b *backupBench) dataDir(name string) func(string) error {
	return func(dir string) error {
		if size := treeSize(filepath.Join(dir, name)); size < b.server.size*9/10 {
			return fmt.Errorf("%d of %d bytes were restored", size, b.server.size)
		}
		return nil
	}
}

const stanza = "bench"

// pgBackRestConfig is for all its commands. WAL is not archived by it: it only copies the files.
func (b *backupBench) pgBackRestConfig() []byte {
	endpoint, err := url.Parse(b.store.Destination.Endpoint)
	if err != nil {
		b.Fatal(err)
	}
	return fmt.Appendf(nil, `[global]
repo1-type=s3
repo1-path=/pgbackrest
repo1-s3-bucket=%s
repo1-s3-endpoint=s3.invalid
repo1-storage-host=%s
repo1-storage-port=%s
repo1-storage-verify-tls=n
repo1-s3-region=us-east-1
repo1-s3-uri-style=path
repo1-s3-key=%s
repo1-s3-key-secret=%s
repo1-retention-full=1
compress-type=zst
compress-level=3
repo1-bundle=y
start-fast=y
archive-check=n
log-level-file=off
lock-path=%[6]s/pgbackrest
spool-path=%[6]s/pgbackrest
[%s]
pg1-path=%s
pg1-port=%d
pg1-socket-path=%s
pg1-user=%s
`, teststores.Bucket, endpoint.Hostname(), endpoint.Port(), b.store.Keys.Files["access-key-id"], b.store.Keys.Files["secret-access-key"], b.folder, stanza,
		b.server.DataDir(), b.server.Settings.Port, b.server.SocketDir(), config.Superuser)
}

// pgBackRest copies the data directory itself with a number of processes.
func (b *backupBench) pgBackRest(processes int) *backupContender {
	execute := func(arguments ...string) *exec.Cmd {
		command := exec.CommandContext(b.ctx, "pgbackrest", append([]string{
			"--config=" + filepath.Join(b.folder, "pgbackrest.conf"), "--stanza=" + stanza, fmt.Sprintf("--process-max=%d", processes),
		}, arguments...)...)
		command.Env = b.environment()
		return command
	}
	return &backupContender{
		name: fmt.Sprintf("pgbackrest-%d", processes), folder: "pgbackrest", about: fmt.Sprintf("pgBackRest, zstd, process-max=%d", processes),
		backup: func(string) *exec.Cmd {
			if _, err := os.Stat(filepath.Join(b.store.Dir, teststores.Bucket, "pgbackrest", "backup", stanza, "backup.info")); err != nil {
				create := exec.CommandContext(b.ctx, "pgbackrest", "--config="+filepath.Join(b.folder, "pgbackrest.conf"), "--stanza="+stanza, "stanza-create")
				create.Env = b.environment()
				if _, err := b.run(create); err != nil {
					b.Fatal(err)
				}
			}
			return execute("--type=full", "backup")
		},
		restore: func(_, dir string) (*exec.Cmd, error) { return execute("--pg1-path="+dir, "restore"), nil },
		check:   b.dataDir(""),
	}
}

// barman copies the data directory itself, with its default of two processes. Its snappy fails with Debian 12: python3-snappy lacks a macro
// that Python 3.11 needs.
func (b *backupBench) barman(compression string, arguments ...string) *backupContender {
	name, prefix := "barman-"+compression, "s3://"+teststores.Bucket+"/barman-"+compression
	execute := func(program string, arguments ...string) *exec.Cmd {
		command := exec.CommandContext(b.ctx, program, append([]string{"--endpoint-url", b.store.Destination.Endpoint}, arguments...)...)
		command.Env = b.environment("AWS_ACCESS_KEY_ID="+string(b.store.Keys.Files["access-key-id"]), "AWS_SECRET_ACCESS_KEY="+string(b.store.Keys.Files["secret-access-key"]),
			"AWS_DEFAULT_REGION=us-east-1", "AWS_CA_BUNDLE="+filepath.Join(b.root(), job.DirStoreCA, "ca.crt"))
		return command
	}
	return &backupContender{
		name: name, folder: name, about: "barman-cloud, " + strings.Replace(compression, "none", "not compressed", 1),
		backup: func(string) *exec.Cmd {
			if err := os.RemoveAll(filepath.Join(b.store.Dir, teststores.Bucket, "barman-"+compression)); err != nil {
				b.Fatal(err)
			}
			return execute("barman-cloud-backup", append(arguments, "--immediate-checkpoint", "--host", b.server.SocketDir(), "--port", fmt.Sprint(b.server.Settings.Port),
				"--user", config.Superuser, prefix, stanza)...)
		},
		restore: func(_, dir string) (*exec.Cmd, error) {
			list := execute("barman-cloud-backup-list", "--format", "json", prefix, stanza)
			list.Dir = b.folder
			output, err := list.Output()
			if err != nil {
				return nil, fmt.Errorf("list: %w", err)
			}
			var found struct {
				Backups []struct {
					ID string `json:"backup_id"`
				} `json:"backups_list"`
			}
			if err := json.Unmarshal(output, &found); err != nil || len(found.Backups) != 1 {
				return nil, errors.Join(fmt.Errorf("%d backups: %s", len(found.Backups), output), err)
			}
			return execute("barman-cloud-restore", prefix, stanza, found.Backups[0].ID, dir), nil
		},
		check: b.dataDir(""),
	}
}
