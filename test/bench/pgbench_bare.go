package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// bareServer is a postgres process on this machine, with the settings of an instance.
type bareServer struct {
	place        place
	folder, port string
	// group is its cgroup, beside the cgroup of the instance's container; empty for none.
	group      string
	password   string
	settings   map[string]string
	credential *syscall.Credential
	process    *exec.Cmd
	ended      chan struct{}
}

// newBareServer creates and starts it. The result must be removed, also after an error.
func newBareServer(ctx context.Context, folder string, like *pgInstance, where place) (*bareServer, error) {
	b := &bareServer{place: where, password: rand.Text(), ended: make(chan struct{})}
	var err error
	if b.settings, err = like.targets()[0].settings(ctx, writtenSettings); err != nil {
		return b, err
	}
	if b.credential, err = unprivileged(); err != nil {
		return b, err
	}
	if b.folder, err = os.MkdirTemp(folder, "fettle-pgbench-"); err != nil {
		return b, err
	}
	if b.port, err = freePort(ctx); err != nil {
		return b, err
	}
	for _, step := range []func() error{
		func() error { return b.initialize(ctx, like) },
		func() error { return b.configure(like) },
		func() error { return b.start() },
		func() error { return b.prepare(ctx) },
		func() error { return b.share(like) },
	} {
		if err := step(); err != nil {
			return b, fmt.Errorf("bare server: %w", err)
		}
	}
	return b, nil
}

// unprivileged is the user of Debian's package if this runs as root, because postgres refuses to run as root.
func unprivileged() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil //nolint:nilnil // not root: no other user is necessary
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("run as root, the bare server needs the user of Debian's package (hack/postgres.sh installs it): %w", err)
	}
	uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(errUID, errGID)
}

func freePort(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }() // no request was sent
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

func (b *bareServer) data() string { return filepath.Join(b.folder, "data") }

// initialize creates the data directory with the options of the instance's.
func (b *bareServer) initialize(ctx context.Context, like *pgInstance) error {
	secret := filepath.Join(b.folder, "password")
	if err := os.WriteFile(secret, []byte(b.password), 0o600); err != nil {
		return err
	}
	if err := b.chown(b.folder, secret); err != nil {
		return err
	}
	arguments := []string{
		"--pgdata=" + b.data(), "--username=postgres", "--pwfile=" + secret, "--auth=scram-sha-256", "--no-sync",
		"--encoding=" + like.facts["server_encoding"], "--locale=" + like.facts["lc_collate"], "--wal-segsize=" + like.facts["wal_segment_mb"],
	}
	if like.facts["data_checksums"] == "on" {
		arguments = append(arguments, "--data-checksums")
	}
	command := exec.CommandContext(ctx, filepath.Join(pgBinaries, "initdb"), arguments...)
	command.Dir, command.SysProcAttr = b.folder, &syscall.SysProcAttr{Credential: b.credential}
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, output)
	}
	return nil
}

// configure writes the instance's settings and its certificate, so TLS has the same cost.
func (b *bareServer) configure(like *pgInstance) error {
	var conf strings.Builder
	for _, name := range slices.Sorted(maps.Keys(b.settings)) {
		fmt.Fprintf(&conf, "%s = '%s'\n", name, strings.NewReplacer(`'`, `''`, `\`, `\\`).Replace(b.settings[name]))
	}
	fmt.Fprintf(&conf, "listen_addresses = '%s'\nport = %s\nunix_socket_directories = ''\n", b.place.address, b.port)
	files := map[string][]byte{}
	for setting, key := range map[string]string{"ssl_cert_file": "tls.crt", "ssl_key_file": "tls.key", "ssl_ca_file": "ca.crt"} {
		fmt.Fprintf(&conf, "%s = '%s'\n", setting, key)
		files[filepath.Join(b.data(), key)] = like.certificate[key]
	}
	files[filepath.Join(b.data(), "postgresql.conf")] = []byte(conf.String())
	files[filepath.Join(b.data(), "pg_hba.conf")] = []byte("hostssl all all all scram-sha-256\nhost all all 127.0.0.1/32 scram-sha-256\n")
	for path, content := range files {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
		if err := b.chown(path); err != nil {
			return err
		}
	}
	return nil
}

// chown makes the server's user the owner of files.
func (b *bareServer) chown(paths ...string) error {
	if b.credential == nil {
		return nil
	}
	for _, path := range paths {
		if err := os.Chown(path, int(b.credential.Uid), int(b.credential.Gid)); err != nil {
			return err
		}
	}
	return nil
}

func (b *bareServer) start() error {
	log, err := os.Create(filepath.Join(b.folder, "log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has it open too
	b.process = exec.Command(filepath.Join(pgBinaries, "postgres"), "-D", b.data())
	b.process.Dir, b.process.SysProcAttr = b.folder, &syscall.SysProcAttr{Credential: b.credential, Pdeathsig: syscall.SIGQUIT}
	b.process.Stdout, b.process.Stderr = log, log
	if err := b.place.run(b.process, b.ended); err != nil {
		b.process = nil
		return err
	}
	return nil
}

// prepare waits until the server responds, and creates the role and the database.
func (b *bareServer) prepare(ctx context.Context) error {
	config, err := pgx.ParseConfig(fmt.Sprintf("host=%s port=%s user=postgres dbname=postgres sslmode=require", b.place.address, b.port))
	if err != nil {
		return err
	}
	config.Password = b.password
	var conn *pgx.Conn
	for range 100 {
		if conn, err = pgx.ConnectConfig(ctx, config); err == nil || ctx.Err() != nil {
			break
		}
		select {
		case <-b.ended:
			text, _ := os.ReadFile(filepath.Join(b.folder, "log")) // the error beside it is sufficient
			return fmt.Errorf("the server exited: %w: %s", err, text)
		case <-time.After(100 * time.Millisecond):
		}
	}
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // all results have been read
	for _, statement := range []string{
		"CREATE ROLE " + pgRole + " LOGIN PASSWORD '" + b.password + "'",
		"GRANT pg_checkpoint, pg_read_all_settings TO " + pgRole,
		"CREATE DATABASE " + pgRole + " OWNER " + pgRole,
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func (b *bareServer) target() pgTarget {
	t := pgTarget{name: targetBare, about: "a bare `postgres` on the node, by the loopback", host: b.place.address, port: b.port, password: b.password}
	if b.place.network != "" {
		t.name, t.about = targetBarePod, "a bare `postgres` in the network of that pod"
	}
	return t
}

// remove stops the server and removes its data.
func (b *bareServer) remove() error {
	if b.process != nil {
		if err := b.process.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		select {
		case <-b.ended:
		case <-time.After(30 * time.Second):
			if err := b.process.Process.Signal(syscall.SIGQUIT); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return err
			}
			<-b.ended
		}
	}
	var errs []error
	if b.group != "" {
		errs = append(errs, os.Remove(b.group))
	}
	if b.folder != "" {
		errs = append(errs, os.RemoveAll(b.folder))
	}
	return errors.Join(errs...)
}
