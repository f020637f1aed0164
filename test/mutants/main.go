// Mutants checks that the tests detect bugs. For each important rule it builds the code with one deliberate bug and expects the tests of
// that rule to fail.
//
//	go run ./test/mutants [-run REGEXP] [-since COMMIT] [-for TIME] [-p N] [FILE...]
//
// It runs in the root of the repository. With -since it only tries mutants of files that have changed since a commit. With -for it starts
// none after that time. The bugs are in test/mutants/*.yaml. They are compiled through an overlay: the tree is never changed. A mutant
// that no test detects, or that does not compile, is an error, and so is a test that fails without a mutant.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	only := flags.String("run", "", "only mutants whose name matches this regular `expression`")
	since := flags.String("since", "", "only mutants of files that changed since this `commit`")
	limit := flags.Duration("for", 24*time.Hour, "start no mutant after this `time`")
	atOnce := flags.Int("p", runtime.NumCPU(), "how many mutants to try concurrently")
	if err := flags.Parse(args); err != nil {
		return err
	}
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	files := flags.Args()
	if len(files) == 0 {
		if files, err = filepath.Glob("test/mutants/*.yaml"); err != nil {
			return err
		}
	}
	mutants, err := load(files...)
	if err != nil {
		return err
	}
	mutants = slices.DeleteFunc(mutants, func(m mutant) bool { return !pattern.MatchString(m.Name) })
	if len(mutants) == 0 {
		return fmt.Errorf("no mutant in %v whose name matches %q", files, *only)
	}
	if *since != "" {
		if mutants, err = changedSince(ctx, mutants, *since); err != nil {
			return err
		}
	}
	rand.Shuffle(len(mutants), func(i, j int) { mutants[i], mutants[j] = mutants[j], mutants[i] }) // for -for
	return tryAll(ctx, mutants, *atOnce, *limit)
}

// changedSince keeps the mutants of files that changed since a commit.
func changedSince(ctx context.Context, mutants []mutant, commit string) ([]mutant, error) {
	cmd := exec.CommandContext(ctx, "git", "diff", "--name-only", commit, "--")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("files changed since %s: %w", commit, err)
	}
	changed := strings.Split(string(out), "\n")
	return slices.DeleteFunc(mutants, func(m mutant) bool { return !slices.Contains(changed, m.File) }), nil
}

// tryAll tries mutants, several at a time and none after the limit, and reports how many were caught. Before a package's first mutant it
// checks that the tests pass without one.
func tryAll(ctx context.Context, mutants []mutant, atOnce int, limit time.Duration) error {
	begun := time.Now()
	var workers errgroup.Group
	workers.SetLimit(max(atOnce, 1))
	var mu sync.Mutex
	var bad []string
	tried := 0
	for _, m := range append(baselines(mutants), mutants...) {
		if ctx.Err() != nil || time.Since(begun) > limit {
			break
		}
		workers.Go(func() error {
			start := time.Now()
			message, ok := m.try(ctx)
			mu.Lock()
			defer mu.Unlock()
			fmt.Printf("%s: %s, in %s\n", m.Name, message, time.Since(start).Round(100*time.Millisecond))
			if !ok {
				bad = append(bad, fmt.Sprintf("%s (%s): %s", m.Name, m.Rule, message))
			}
			if !m.baseline() {
				tried++
			}
			return nil
		})
	}
	if err := workers.Wait(); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case tried == 0 && len(mutants) > 0:
		bad = append(bad, fmt.Sprintf("no mutant was tried within %s", limit))
	}
	fmt.Printf("%d of %d mutants tried in %s\n", tried, len(mutants), time.Since(begun).Round(time.Second))
	if len(bad) > 0 {
		return fmt.Errorf("%d failed:\n%s", len(bad), strings.Join(bad, "\n"))
	}
	return nil
}
