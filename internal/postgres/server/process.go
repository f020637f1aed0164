package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/fettle-dev/fettle/internal/postgres/config"
)

// Process is a started postmaster.
type Process struct {
	server *Server
	pid    int
	done   chan struct{}
	exit   Exit
}

// Exit is how a postmaster exited.
type Exit struct {
	// Code is the exit code, or -1 if the process was killed by Signal.
	Code   int
	Signal syscall.Signal
}

// String formats the exit status for logs and messages.
func (e Exit) String() string {
	if e.Code < 0 {
		return "was killed by signal " + e.Signal.String()
	}
	return "exited with code " + strconv.Itoa(e.Code)
}

// Start starts the postmaster and returns at once. It removes stale files of earlier runs (postmaster.pid, sockets). It
// fails if a process still uses the data directory. The context bounds only the start.
func (s *Server) Start(ctx context.Context) (*Process, error) {
	if content, err := s.DataState(); err != nil {
		return nil, err
	} else if content == Empty {
		return nil, fmt.Errorf("the data directory %s is empty: initialize or clone it first", s.DataDir())
	}
	program, err := s.options.Binaries.path("postgres")
	if err != nil {
		return nil, err
	}
	lock, err := s.lock()
	if err != nil {
		return nil, err
	}
	defer lock.Close() //nolint:errcheck // nothing is written to it
	// An fsGroup may have made the volume group-writable, which PostgreSQL rejects.
	chmodErr := os.Chmod(s.DataDir(), 0o700) //nolint:gosec // a directory needs the x bit
	if err := errors.Join(ctx.Err(), chmodErr, s.removeStaleFiles(), s.resetAutoConf()); err != nil {
		return nil, err
	}
	conf := filepath.Join(s.ConfigDir(), config.ConfFile)
	cmd := exec.Command(program, "-D", s.DataDir(), "-c", "config_file="+conf) //nolint:gosec,noctx // it outlives the context
	cmd.Env, cmd.Dir = s.environment(), s.DataDir()
	cmd.ExtraFiles = []*os.File{lock}
	// On SIGQUIT the postmaster ends its children too. Each run is a separate session: signals from a terminal do not
	// reach it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.options.Credential, Setsid: true, Pdeathsig: syscall.SIGQUIT}
	output, err := s.outputPipe()
	if err != nil {
		return nil, err
	}
	defer output.Close() //nolint:errcheck // the postmaster has its own
	cmd.Stdout, cmd.Stderr = output, output
	return s.launch(cmd)
}

// launch starts the postmaster from a thread that lives as long as the postmaster: Pdeathsig fires when the starting thread
// exits.
func (s *Server) launch(cmd *exec.Cmd) (*Process, error) {
	p := &Process{server: s, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := StartChild(cmd)
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- err
		if err != nil {
			return
		}
		_ = WaitChild(cmd) // ProcessState has the exit status
		p.exit = exitOf(cmd.ProcessState)
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	return p, nil
}

func exitOf(state *os.ProcessState) Exit {
	exit := Exit{Code: state.ExitCode()}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		exit.Signal = status.Signal()
	}
	return exit
}

// removeStaleFiles removes the files of a server that is gone. PostgreSQL compares the noted PID with running processes,
// and a new container reuses PIDs. The lock proves that the server is gone.
func (s *Server) removeStaleFiles() error {
	paths := []string{filepath.Join(s.DataDir(), "postmaster.pid")}
	sockets, err := filepath.Glob(filepath.Join(s.SocketDir(), ".s.PGSQL.*"))
	if err != nil {
		return err
	}
	for _, path := range append(paths, sockets...) {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove stale files of an earlier server: %w", err)
		}
	}
	return nil
}

// resetAutoConf removes settings of ALTER SYSTEM, which would override the configuration. The removed names are logged.
func (s *Server) resetAutoConf() error {
	const comment = "# Fettle does not use this file: ALTER SYSTEM has no lasting effect. Use spec.parameters of the PostgreSQL object.\n"
	path := filepath.Join(s.DataDir(), autoConf)
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if string(content) == comment {
		return nil
	}
	for line := range strings.Lines(string(content)) {
		if name, _, found := strings.Cut(line, "="); found && !strings.HasPrefix(line, "#") {
			s.logf("removed %s from postgresql.auto.conf (set by ALTER SYSTEM): use spec.parameters", strings.TrimSpace(name))
		}
	}
	return s.write(path, []byte(comment))
}

// logf writes a line of this package to PostgreSQL's log.
func (s *Server) logf(format string, arguments ...any) {
	fmt.Fprintf(s.options.Output, "fettle: "+format+"\n", arguments...) //nolint:errcheck // there is no other place to report it
}

// environment is the complete environment of PostgreSQL.
func (s *Server) environment() []string {
	return []string{"PATH=" + s.options.Binaries.Dir + ":/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "PGSYSCONFDIR=" + s.options.RunDir, "HOME=" + s.options.RunDir, "TZ=UTC"}
}

// Done is closed when the postmaster has exited. Its children may outlive it for a moment. Kill waits for them too.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit returns how the process exited. Call it after Done is closed.
func (p *Process) Exit() Exit { return p.exit }

// WaitReady waits until the server accepts connections, as a primary or as a consistent standby. It returns an error if the
// postmaster exits first.
func (p *Process) WaitReady(ctx context.Context) error {
	return pollUntil(ctx, func() (bool, error) {
		select {
		case <-p.done:
			return false, fmt.Errorf("PostgreSQL %s before it accepted connections: see its log", p.exit)
		default:
		}
		pid, status := p.server.readPIDFile()
		return pid == p.pid && status == "ready", nil
	})
}

// readPIDFile returns PID and status from postmaster.pid, or 0 and "" if it has none.
func (s *Server) readPIDFile() (pid int, status string) {
	content, err := os.ReadFile(filepath.Join(s.DataDir(), "postmaster.pid"))
	if err != nil {
		return 0, ""
	}
	const pidLine, statusLine = 0, 7
	lines := strings.Split(string(content), "\n")
	if pid, err = strconv.Atoi(lines[pidLine]); err != nil || len(lines) <= statusLine {
		return 0, ""
	}
	return pid, strings.TrimSpace(lines[statusLine])
}
