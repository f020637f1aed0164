package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// toolOptions are options for running a tool.
type toolOptions struct {
	// holdLock makes the tool and its children hold the lock of the data directory, so they are found if they outlive this
	// process.
	holdLock bool
	// quiet keeps its output out of the log.
	quiet bool
	// password is passed only in the environment of the program. "" means none.
	password string
	// stdout receives the standard output instead of the caller, and stderr a copy of the error output.
	stdout, stderr io.Writer
}

// tool runs a PostgreSQL program and returns its standard output. The error contains the end of its error output. When the
// context is done, the program and all its children are killed.
func (s *Server) tool(ctx context.Context, o toolOptions, name string, arguments ...string) (string, error) {
	program, err := s.options.Binaries.path(name)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, program, arguments...) //nolint:gosec // a program of the image, without a shell
	cmd.Env, cmd.Dir = s.environment(), s.options.RunDir
	if o.password != "" {
		cmd.Env = append(cmd.Env, "PGPASSWORD="+o.password)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.options.Credential, Setsid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	if o.holdLock {
		lock, err := s.lock()
		if err != nil {
			return "", err
		}
		defer lock.Close() //nolint:errcheck // nothing is written to it
		cmd.ExtraFiles = []*os.File{lock}
	}
	var stdout bytes.Buffer
	stderr := &outputTail{log: s.options.Output}
	if o.quiet {
		stderr.log = io.Discard
	}
	cmd.Stdout, cmd.Stderr = &stdout, stderr
	if o.stdout != nil {
		cmd.Stdout, cmd.Stderr = o.stdout, io.MultiWriter(stderr, o.stderr)
	}
	if err := runChild(cmd); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return "", fmt.Errorf("%s: %w%s", name, err, stderr)
	}
	return stdout.String(), nil
}

// outputTail keeps the end of an output and passes the output on.
type outputTail struct {
	log io.Writer

	mu   sync.Mutex
	kept []byte
}

// maxTail limits how much of the output an error quotes.
const maxTail = 1 << 10

func (t *outputTail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	t.kept = t.kept[max(0, len(t.kept)-maxTail):]
	_, _ = t.log.Write(p) // a tool must not fail because of its log
	return len(p), nil
}

func (t *outputTail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if text := strings.TrimSpace(string(t.kept)); text != "" {
		return ": " + text
	}
	return ""
}

// removeAll removes a directory durably.
func removeAll(path string) error {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}
