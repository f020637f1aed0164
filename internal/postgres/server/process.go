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

// Exit tells how a postmaster ended.
type Exit struct {
	// Code is its exit code, -1 if a signal ended it.
	Code   int
	Signal syscall.Signal
}

// String says it for people.
func (e Exit) String() string {
	if e.Code < 0 {
		return "ended by signal " + e.Signal.String()
	}
	return "exited with code " + strconv.Itoa(e.Code)
}

// Start starts the postmaster and returns at once. What an earlier life left behind (postmaster.pid, sockets) is removed;
// nothing uses the data directory any more, or the error says so. The context only bounds the start.
func (s *Server) Start(ctx context.Context) (*Process, error) {
	if content, err := s.DataState(); err != nil {
		return nil, err
	} else if content == Empty {
		return nil, fmt.Errorf("there is no data directory %s yet: Init or Clone makes one", s.DataDir())
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
	// Kubernetes may have given the volume to a group, with all that is in it; PostgreSQL refuses that.
	chmodErr := os.Chmod(s.DataDir(), 0o700) //nolint:gosec // a folder needs to be entered
	if err := errors.Join(ctx.Err(), chmodErr, s.removeStaleFiles(), s.resetAutoConf()); err != nil {
		return nil, err
	}
	conf := filepath.Join(s.ConfigDir(), config.ConfFile)
	cmd := exec.Command(program, "-D", s.DataDir(), "-c", "config_file="+conf) //nolint:gosec,noctx // it outlives the context
	cmd.Env, cmd.Dir = s.environment(), s.DataDir()
	cmd.ExtraFiles = []*os.File{lock}
	// SIGQUIT has the postmaster end its children too. Each life of PostgreSQL is a session of its own, so that what is
	// typed at a terminal does not reach it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.options.Credential, Setsid: true, Pdeathsig: syscall.SIGQUIT}
	output, err := s.outputPipe()
	if err != nil {
		return nil, err
	}
	defer output.Close() //nolint:errcheck // the postmaster has its own
	cmd.Stdout, cmd.Stderr = output, output
	return s.launch(cmd)
}

// launch starts the postmaster from a thread that lives as long as it does: the kernel takes the end of that thread for
// the death of the parent.
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
		_ = WaitChild(cmd) // the state tells how it ended
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

// removeStaleFiles removes what a server that is gone left. PostgreSQL would compare the noted process with those of today,
// and in a new container the numbers begin anew; the lock proves that it is gone.
func (s *Server) removeStaleFiles() error {
	paths := []string{filepath.Join(s.DataDir(), "postmaster.pid")}
	sockets, err := filepath.Glob(filepath.Join(s.SocketDir(), ".s.PGSQL.*"))
	if err != nil {
		return err
	}
	for _, path := range append(paths, sockets...) {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove what an earlier server left: %w", err)
		}
	}
	return nil
}

// resetAutoConf takes away what ALTER SYSTEM wrote: it would win over the configuration. What it was is logged.
func (s *Server) resetAutoConf() error {
	const comment = "# Fettle does not use this file: ALTER SYSTEM has no lasting effect. Use the parameters of the PostgreSQL object.\n"
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
			s.logf("ALTER SYSTEM had set %s; that is undone: use the parameters of the PostgreSQL object", strings.TrimSpace(name))
		}
	}
	return s.write(path, []byte(comment))
}

// logf writes a line of the server package's own among those of PostgreSQL.
func (s *Server) logf(format string, arguments ...any) {
	fmt.Fprintf(s.options.Output, "fettle: "+format+"\n", arguments...) //nolint:errcheck // there is nowhere else to say it
}

// environment is all that PostgreSQL gets of one.
func (s *Server) environment() []string {
	return []string{"PATH=" + s.options.Binaries.Dir + ":/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "PGSYSCONFDIR=" + s.options.RunDir, "HOME=" + s.options.RunDir, "TZ=UTC"}
}

// Done is closed when the postmaster has ended. Its children may outlive it for a moment: Kill waits for them too.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit tells how it ended; only after Done.
func (p *Process) Exit() Exit { return p.exit }

// WaitReady waits until the server takes connections: as a primary, or as a consistent standby. It ends early with an
// error when the postmaster ends.
func (p *Process) WaitReady(ctx context.Context) error {
	return pollUntil(ctx, func() (bool, error) {
		select {
		case <-p.done:
			return false, fmt.Errorf("PostgreSQL %s before it took connections: its log says why", p.exit)
		default:
		}
		pid, status := p.server.readPIDFile()
		return pid == p.pid && status == "ready", nil
	})
}

// readPIDFile reads what a postmaster tells about itself: its process and its state. They are 0 and "" when it says nothing.
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
