package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/fettle-dev/fettle/internal/testenv"
)

const (
	// testTimeout stops a test program that hangs because of a mutant.
	testTimeout = 2 * time.Minute
	// cancelAfter is how long a test program may run after it was interrupted.
	cancelAfter = 5 * time.Second
)

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// runner compiles and runs tests.
type runner struct {
	root    string
	dir     string
	verbose bool
	env     []string
	server  *testenv.Env // nil if no mutant needs one, or another process shares its own

	mu sync.Mutex
	// baselines reports whether tests pass without any mutant, by package and expression.
	baselines map[[2]string]func() error
	// programs are the test programs without a mutant, by package.
	programs map[string]func() (string, error)
}

// newRunner starts an API server if a mutant needs it.
func newRunner(ctx context.Context, root string, mutants []mutant, verbose bool) (*runner, error) {
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return nil, err
	}
	r := &runner{
		root: root, dir: dir, verbose: verbose, env: os.Environ(),
		baselines: map[[2]string]func() error{}, programs: map[string]func() (string, error){},
	}
	if !slices.ContainsFunc(mutants, func(m mutant) bool { return m.APIServer }) || os.Getenv(testenv.SharedVariable) != "" {
		return r, nil
	}
	if err := r.startServer(); err != nil {
		r.close()
		return nil, err
	}
	return r, ctx.Err()
}

// startServer starts the API server that the test programs share.
func (r *runner) startServer() (err error) {
	if r.server, err = testenv.Start(testenv.Options{Fast: true}); err != nil {
		return err
	}
	dir, err := r.server.Share()
	if err != nil {
		return err
	}
	r.env = append(r.env, testenv.SharedVariable+"="+dir)
	return nil
}

func (r *runner) close() {
	if err := r.server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "mutants: stop the API server:", err)
	}
	if err := os.RemoveAll(r.dir); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
}

// try returns the test that caught m, "" if none did.
func (r *runner) try(ctx context.Context, m mutant) (by string, err error) {
	changed, err := m.mutate(r.root)
	if err != nil {
		return "", err
	}
	if err := r.checkBaseline(ctx, m); err != nil {
		return "", err
	}
	program, err := r.build(ctx, m, changed)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(filepath.Dir(program))) }()
	output, passed, err := r.test(ctx, m, program)
	if err != nil || passed {
		return "", err
	}
	if found := failed.FindSubmatch(output); found != nil {
		return string(found[1]), nil
	}
	return "a crash or the time limit", nil
}

// build compiles the tests of m's package with the changed file.
func (r *runner) build(ctx context.Context, m mutant, changed []byte) (string, error) {
	dir, err := os.MkdirTemp(r.dir, "")
	if err != nil {
		return "", err
	}
	source := filepath.Join(dir, filepath.Base(m.File))
	if err := os.WriteFile(source, changed, 0o600); err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(r.root, m.File): source}})
	if err != nil {
		return "", err
	}
	overlayFile := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlayFile, overlay, 0o600); err != nil {
		return "", err
	}
	program := filepath.Join(dir, "mutant.test")
	if err := r.compile(ctx, m.Package, program, "-overlay", overlayFile); err != nil {
		return "", fmt.Errorf("does not compile: %w", err)
	}
	return program, nil
}

// checkBaseline checks, once, that m's tests exist and pass without m.
func (r *runner) checkBaseline(ctx context.Context, m mutant) error {
	r.mu.Lock()
	program, ok := r.programs[m.Package]
	if !ok {
		path := filepath.Join(r.dir, fmt.Sprintf("%d.test", len(r.programs)))
		program = sync.OnceValues(func() (string, error) { return path, r.compile(ctx, m.Package, path) })
		r.programs[m.Package] = program
	}
	key := [2]string{m.Package, m.Run}
	sound, ok := r.baselines[key]
	if !ok {
		sound = sync.OnceValue(func() error { return r.passesWithout(ctx, m, program) })
		r.baselines[key] = sound
	}
	r.mu.Unlock()
	return sound()
}

func (r *runner) passesWithout(ctx context.Context, m mutant, program func() (string, error)) error {
	path, err := program()
	if err != nil {
		return fmt.Errorf("%s does not compile without the mutant: %w", m.Package, err)
	}
	output, passed, err := r.test(ctx, m, path)
	switch {
	case err != nil:
		return err
	case !passed:
		return fmt.Errorf("%s fails without the mutant too:\n%s", m.Run, output)
	case bytes.Contains(output, []byte("no tests to run")):
		return fmt.Errorf("no test of %s matches %s", m.Package, m.Run)
	}
	return nil
}

func (r *runner) compile(ctx context.Context, pkg, program string, flags ...string) error {
	args := append([]string{"test", "-c", "-ldflags=-s -w", "-o", program}, flags...) // halves the link time
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Dir = r.root
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, output)
	}
	return nil
}

// test runs m's tests in a program and reports whether they passed.
func (r *runner) test(ctx context.Context, m mutant, program string) ([]byte, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-test.run", m.Run, "-test.failfast")
	cmd.Dir = filepath.Join(r.root, m.Package)
	cmd.Env = r.env
	cmd.WaitDelay = cancelAfter
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	output, err := cmd.CombinedOutput()
	if r.verbose {
		fmt.Printf("%s\n", output)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && ctx.Err() == nil {
		return nil, false, err
	}
	return output, err == nil, nil
}
