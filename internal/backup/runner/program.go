package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
)

// maxTail is how many bytes of a program's error output a message quotes: the end, which has the cause. The log has all.
const maxTail = 700

// maxLine is how long a line of this output may be.
const maxLine = 8 << 10

// program is a program of the image. Its arguments and environment have no secrets.
type program struct {
	name string
	args []string
	env  []string
	// in is its standard input, or nil.
	in io.Reader
}

// find returns the first of several programs that the image has.
func find(names ...string) (string, error) {
	for _, name := range names {
		if _, err := exec.LookPath(name); err == nil {
			return name, nil
		}
	}
	return "", refuse(backupv1alpha1.ReasonProgramMissing, "the image has no %s: set pod.image to an image with the programs of the database",
		strings.Join(names, " or "))
}

// execute runs a program to its end. An error has the end of the program's error output. The first error of p.in or out ends the program,
// and is returned: a program must not take a broken input for the end of its input.
func (r *run) execute(ctx context.Context, p program, out io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cmd := exec.CommandContext(ctx, p.name, p.args...) //nolint:gosec // a program of the image, without a shell
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.Temp, "LC_ALL=C"}, p.env...)
	cmd.Dir = r.Temp
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// No WaitDelay: it would also limit how long a slow store may take for the last bytes of a program that has exited.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	stderr := &output{log: func(line string) { r.Log.Info("output of "+p.name, "line", line) }, secrets: r.secrets}
	cmd.Stderr = stderr
	if p.in != nil {
		cmd.Stdin = &guardedReader{r: p.in, fail: cancel}
	}
	err := runInto(cmd, &guardedWriter{w: out, fail: cancel})
	stderr.flush()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return &programError{program: p.name, err: err, tail: stderr.text()}
	}
	return nil
}

// pipeSize is that of the pipe from a program in bytes, the most that the kernel permits by default. With its usual 64 KiB, the switches
// between the two processes take more time than the copy. copySize is how much is copied at a time.
const pipeSize, copySize = 1 << 20, 256 << 10

// runInto runs a program, and copies its output to out, if that has a writer.
func runInto(cmd *exec.Cmd, out *guardedWriter) error {
	if out.w == nil {
		return cmd.Run() //nolint:wrapcheck // the caller names the program
	}
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("pipe: %w", err)
	}
	defer r.Close()                                           //nolint:errcheck // it is only read
	_, _ = unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, pipeSize) // a smaller one works too
	cmd.Stdout = w
	err = cmd.Start()
	_ = w.Close() // the program has its own
	if err != nil {
		return err //nolint:wrapcheck // the caller names the program
	}
	// The writer hides that of os.File, which has its own small buffer. After an error, the program is killed.
	_, copyErr := io.CopyBuffer(out, struct{ io.Reader }{r}, make([]byte, copySize))
	return errors.Join(cmd.Wait(), copyErr)
}

// capture runs a program with a short output.
func (r *run) capture(ctx context.Context, p program) (string, error) {
	var out bytes.Buffer
	err := r.execute(ctx, p, &out)
	return out.String(), err
}

// programError is a program that failed.
type programError struct {
	program, tail string
	err           error
}

func (e *programError) Error() string {
	if e.tail == "" {
		return fmt.Sprintf("%s: %v", e.program, e.err)
	}
	return fmt.Sprintf("%s: %v: %s", e.program, e.err, e.tail)
}

func (e *programError) Unwrap() error { return e.err }

// guardedReader reports the first error that is not the end.
type guardedReader struct {
	r    io.Reader
	fail context.CancelCauseFunc
}

func (g *guardedReader) Read(p []byte) (int, error) {
	n, err := g.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		g.fail(err)
	}
	return n, err
}

// guardedWriter reports the first error.
type guardedWriter struct {
	w    io.Writer
	fail context.CancelCauseFunc
}

func (g *guardedWriter) Write(p []byte) (int, error) {
	n, err := g.w.Write(p)
	if err != nil {
		g.fail(err)
	}
	return n, err
}

// output logs lines, and keeps their end. It removes secrets from both.
type output struct {
	log     func(line string)
	secrets *redactor

	mu   sync.Mutex
	line []byte
	tail string
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.line = append(o.line, p...)
	for {
		line, rest, found := bytes.Cut(o.line, []byte("\n"))
		if !found && len(o.line) <= maxLine {
			return len(p), nil
		}
		if !found {
			line, rest = o.line, nil
		}
		o.add(string(line))
		o.line = append([]byte(nil), rest...)
	}
}

func (o *output) add(line string) {
	line = strings.TrimSpace(strings.ToValidUTF8(o.secrets.redact(line), "?"))
	if line == "" {
		return
	}
	o.log(line)
	o.tail = strings.TrimSpace(o.tail + "\n" + line)
	o.tail = strings.ToValidUTF8(o.tail[max(0, len(o.tail)-maxTail):], "")
}

func (o *output) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.add(string(o.line))
	o.line = nil
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.tail
}
