package testpg

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// External is a server that Fettle does not manage. It accepts TLS connections and stops with the test.
type External struct {
	Port int
	// Log is the output of the server.
	Log *Log

	dir string
}

// externalHBA allows replication with a password, except for the role stranger.
const externalHBA = `local all all trust
hostssl replication stranger all reject
hostssl replication certified all cert
hostssl replication all all scram-sha-256
`

// NewExternal starts a server without checksums, with the superuser postgres and settings as lines of postgresql.conf. Its
// certificate is for localhost.
func NewExternal(t testing.TB, ca *CA, settings string) *External {
	t.Helper()
	f := &External{Port: Port(t), Log: &Log{}, dir: Dir(t)}
	arguments := []string{"--pgdata=" + f.Data(), "--username=postgres", "--encoding=UTF8", "--locale=C.UTF-8", "--auth=trust", "--wal-segsize=1"}
	if Binaries(t).Major >= 18 {
		arguments = append(arguments, "--no-data-checksums") // the default of earlier versions
	}
	f.run(t, "initdb", arguments...)
	conf := fmt.Sprintf(`listen_addresses = '127.0.0.1'
port = %d
unix_socket_directories = '%s'
password_encryption = 'scram-sha-256'
ssl = on
ssl_cert_file = '%s'
ssl_key_file = '%s'
ssl_ca_file = '%s'
fsync = off
%s
`, f.Port, f.dir, ca.File("server.crt"), ca.File("server.key"), ca.File("ca.crt"), settings)
	f.write(t, "postgresql.conf", conf)
	f.write(t, "pg_hba.conf", externalHBA)
	f.start(t)
	return f
}

// SocketDir is the directory of its socket, which requires no authentication.
func (f *External) SocketDir() string { return f.dir }

// Data is its data directory.
func (f *External) Data() string { return filepath.Join(f.dir, "data") }

func (f *External) write(t testing.TB, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.Data(), name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (f *External) command(t testing.TB, program string, arguments ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(filepath.Join(Binaries(t).Dir, program), arguments...) //nolint:gosec,noctx // a program of PostgreSQL; the test ends it
	cmd.Dir, cmd.Env = f.dir, []string{"LC_ALL=C", "PATH=/usr/bin:/bin", "HOME=" + f.dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: Credential(t), Setsid: true, Pdeathsig: syscall.SIGQUIT}
	return cmd
}

func (f *External) run(t testing.TB, program string, arguments ...string) {
	t.Helper()
	if output, err := f.command(t, program, arguments...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", program, err, output)
	}
}

// start starts the server from a thread that lives as long as the server, because of Pdeathsig.
func (f *External) start(t testing.TB) {
	t.Helper()
	cmd := f.command(t, "postgres", "-D", f.Data())
	cmd.Stdout, cmd.Stderr = io.Writer(f.Log), io.Writer(f.Log)
	started, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGQUIT)
		<-ended
		if t.Failed() {
			t.Logf("log of the external server:\n%s", f.Log)
		}
	})
	for end := time.Now().Add(timeout); ; time.Sleep(20 * time.Millisecond) {
		conn, err := f.connect(t.Context(), "postgres")
		if err == nil {
			_ = conn.Close(t.Context())
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the external server does not start: %v\n%s", err, f.Log)
		}
	}
}

func (f *External) connect(ctx context.Context, database string) (*pgx.Conn, error) {
	return pgx.Connect(ctx, fmt.Sprintf("host=%s port=%d user=postgres dbname=%s", f.dir, f.Port, database))
}

// SQL runs statements as superuser, each in its own transaction.
func (f *External) SQL(t testing.TB, database string, statements ...string) {
	t.Helper()
	conn, err := f.connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context()) //nolint:errcheck // all results were read
	for _, statement := range statements {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", strings.TrimSpace(statement), err)
		}
	}
}

// QueryText runs a query that returns one text as superuser.
func (f *External) QueryText(t testing.TB, database, query string) (value string) {
	t.Helper()
	conn, err := f.connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context()) //nolint:errcheck // all results were read
	if err := conn.QueryRow(t.Context(), query).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}
