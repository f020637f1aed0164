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

// toolOptions say how a tool runs.
type toolOptions struct {
	// holdLock has the tool and its children hold the lock of the data directory, so that they are found when they outlive
	// this process.
	holdLock bool
	// quiet keeps its output out of the log.
	quiet bool
	// password is in the environment of the program, and nowhere else; "" for none.
	password string
	// stdout receives what it writes to its standard output, instead of the caller; said what it says.
	stdout, stderr io.Writer
}

// tool runs one of PostgreSQL's programs to its end, and gives what it wrote to its standard output. The error has the
// end of what it said. When the context ends, it and all that it started is killed.
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

// outputTail keeps the end of what was written, and passes it on.
type outputTail struct {
	log io.Writer

	mu   sync.Mutex
	kept []byte
}

// maxTail bounds what an error quotes.
const maxTail = 1 << 10

func (t *outputTail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	t.kept = t.kept[max(0, len(t.kept)-maxTail):]
	_, _ = t.log.Write(p) // a tool must not fail by its log
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

// removeAll removes a folder that PostgreSQL may have made, and remembers that.
func removeAll(path string) error {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}
