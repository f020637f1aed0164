// Package testpg runs real PostgreSQL servers for tests, each in its own directories and only on loopback.
package testpg

import (
	"context"
	"io"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/internal/postgres/sqlclient"
)

// binariesVariable is the environment variable with the directory of the PostgreSQL programs. The default is the newest
// installed version.
const binariesVariable = "FETTLE_POSTGRES_BIN"

// timeout bounds waits in tests.
const timeout = 2 * time.Minute

// Binaries are the PostgreSQL programs for tests.
func Binaries(t testing.TB) server.Binaries {
	t.Helper()
	var b server.Binaries
	var err error
	if dir := os.Getenv(binariesVariable); dir != "" {
		b, err = server.BinariesIn(t.Context(), dir)
	} else {
		b, err = server.FindBinaries(t.Context())
	}
	if err != nil {
		t.Fatalf("tests need PostgreSQL (hack/postgres.sh installs it): %v", err)
	}
	return b
}

// Credential is an unprivileged user if the tests run as root, otherwise nil.
func Credential(t testing.TB) *syscall.Credential {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		t.Fatalf("tests that run as root need the user of Debian's package: %v", err)
	}
	uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
	if errUID != nil || errGID != nil {
		t.Fatalf("the user postgres has no numbers: %v, %v", errUID, errGID)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// Dir creates a directory for PostgreSQL's user, with a path that is short enough for a socket.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pg") //nolint:usetesting // its path would be too long for a socket, and its parents are closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if c := Credential(t); c != nil {
		if err := os.Chown(dir, int(c.Uid), int(c.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Port returns a free port on loopback.
func Port(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed at once
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nothing was sent
	return l.Addr().(*net.TCPAddr).Port
}

// Instance is a server of a test. It is killed when the test ends.
type Instance struct {
	*server.Server
	// Settings can be changed. Configure or Start apply them.
	Settings config.Settings
	// Log is the output of the server. nil after NewWithOutput.
	Log *Log

	process *server.Process
}

// New prepares an instance without data.
func New(t testing.TB, name string) *Instance {
	t.Helper()
	log := &Log{}
	i := NewWithOutput(t, name, log)
	i.Log = log
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of %s:\n%s", name, log)
		}
	})
	return i
}

// NewWithOutput is New with another log.
func NewWithOutput(t testing.TB, name string, log io.Writer) *Instance {
	t.Helper()
	dir := Dir(t)
	i := &Instance{}
	binaries := Binaries(t)
	s, err := server.New(server.Options{
		Binaries: binaries, Volume: filepath.Join(dir, "volume"), RunDir: filepath.Join(dir, "run"), Credential: Credential(t), Output: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	i.Server = s
	i.Settings = config.Settings{
		Major: binaries.Major, DataDir: s.DataDir(), ConfigDir: s.ConfigDir(), SocketDir: s.SocketDir(), Port: Port(t),
		ListenAddresses: "127.0.0.1", ClusterName: name, Instances: 3, SystemUsers: []string{me.Username},
		Parameters: map[string]string{"shared_buffers": "32MB", "max_wal_size": "128MB", "min_wal_size": "32MB"},
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), timeout)
		defer cancel()
		if err := s.KillLeftovers(ctx); err != nil {
			t.Error(err)
		}
	})
	return i
}

// NewRunning starts a new primary.
func NewRunning(t testing.TB, name string) *Instance {
	t.Helper()
	i := New(t, name)
	if err := i.Init(t.Context(), server.InitOptions{WALSegmentSize: 1}); err != nil {
		t.Fatal(err)
	}
	i.Start(t)
	return i
}

// Configure writes the settings, and reloads a running server.
func (i *Instance) Configure(t testing.TB) {
	t.Helper()
	files, err := config.Render(i.Settings)
	if err != nil {
		t.Fatal(err)
	}
	changed, err := i.Server.Configure(files)
	if err != nil {
		t.Fatal(err)
	}
	if changed && i.process != nil {
		if err := i.process.Reload(); err != nil {
			t.Fatal(err)
		}
	}
}

// Start writes the settings, starts the server and waits until it is ready.
func (i *Instance) Start(t testing.TB) *server.Process {
	t.Helper()
	i.process = nil
	i.Configure(t)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	p, err := i.Server.Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	i.process = p
	if err := p.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	return p
}

// Process is the process that was started last.
func (i *Instance) Process() *server.Process { return i.process }

// Stop stops the server with a fast shutdown.
func (i *Instance) Stop(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	if err := i.process.Stop(ctx, server.Fast); err != nil {
		t.Fatal(err)
	}
}

// Client connects to the server as its superuser.
func (i *Instance) Client(t testing.TB) *sqlclient.Client {
	t.Helper()
	c := sqlclient.New(i.ClientOptions())
	t.Cleanup(func() { c.Close(context.WithoutCancel(t.Context())) })
	return c
}

// ClientOptions are the connection options of the server.
func (i *Instance) ClientOptions() sqlclient.Options {
	return sqlclient.Options{SocketDir: i.SocketDir(), Port: i.Settings.Port, StatementTimeout: timeout}
}

// Log keeps the output of a server.
type Log struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	return len(p), nil
}

// String returns the complete output.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}
