// Mutants checks that the tests detect bugs. For each important rule it builds the code with one deliberate bug and expects the tests of
// that rule to fail.
//
//	go run ./test/mutants [-run REGEXP] [-since COMMIT] [-for TIME] [-p N] [-v] [FILE...]
//
// With -since it only tries mutants of files that have changed since a commit. With -for it starts none after that time. The bugs are in
// test/mutants/*.yaml. Each replaces a text that occurs exactly once in a file. They are compiled through an overlay: the tree is never
// changed. A mutant that is not detected, does not compile, or whose tests fail without it as well, is an error of the list.
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
	limit := flags.Duration("for", 0, "start no mutant after this `time`; 0 means no limit")
	atOnce := flags.Int("p", runtime.NumCPU(), "how many mutants to try concurrently")
	verbose := flags.Bool("v", false, "print the output of the tests")
	if err := flags.Parse(args); err != nil {
		return err
	}
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	files := flags.Args()
	if len(files) == 0 {
		if files, err = filepath.Glob(filepath.Join(root, "test", "mutants", "*.yaml")); err != nil {
			return err
		}
	}
	mutants, err := load(files, pattern)
	if err != nil {
		return err
	}
	if *since != "" {
		if mutants, err = changedSince(ctx, root, mutants, *since); err != nil {
			return err
		}
	}
	if *limit > 0 { // random order, so over many runs each mutant is tried
		rand.Shuffle(len(mutants), func(i, j int) { mutants[i], mutants[j] = mutants[j], mutants[i] })
	}
	r, err := newRunner(ctx, root, mutants, *verbose)
	if err != nil {
		return err
	}
	defer r.close()
	return report(ctx, r, mutants, max(*atOnce, 1), *limit)
}

// changedSince keeps the mutants of files that changed since a commit.
func changedSince(ctx context.Context, root string, mutants []mutant, commit string) ([]mutant, error) {
	cmd := exec.CommandContext(ctx, "git", "diff", "--name-only", commit, "--")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("files changed since %s: %w", commit, err)
	}
	changed := map[string]bool{}
	for file := range strings.Lines(string(out)) {
		changed[strings.TrimSpace(file)] = true
	}
	return slices.DeleteFunc(mutants, func(m mutant) bool { return !changed[m.File] }), nil
}

// result is the result of one mutant.
type result struct {
	mutant
	by   string
	err  error
	took time.Duration
}

// report tries mutants, several at a time and none after the limit, and reports how many were caught.
func report(ctx context.Context, r *runner, mutants []mutant, atOnce int, limit time.Duration) error {
	begun := time.Now()
	todo := make(chan mutant)
	results := make(chan result)
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for m := range todo {
				start := time.Now()
				by, err := r.try(ctx, m)
				results <- result{mutant: m, by: by, err: err, took: time.Since(start).Round(100 * time.Millisecond)}
			}
		})
	}
	go func() {
		defer close(results)
		defer workers.Wait()
		defer close(todo)
		for _, m := range mutants {
			if ctx.Err() != nil || limit > 0 && time.Since(begun) > limit {
				return
			}
			todo <- m
		}
	}()
	caught, tried := 0, 0
	var missed []string
	for res := range results {
		tried++
		switch {
		case ctx.Err() != nil:
		case res.err != nil:
			missed = append(missed, res.Name)
			fmt.Printf("ERROR  %s: %v\n", res.Name, res.err)
		case res.by == "":
			missed = append(missed, res.Name)
			fmt.Printf("MISSED %s (%s): %s passes, in %s\n", res.Name, res.Rule, res.Run, res.took)
		default:
			caught++
			fmt.Printf("caught %s by %s, in %s\n", res.Name, res.by, res.took)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fmt.Printf("%d of %d mutants tried, %d caught\n", tried, len(mutants), caught)
	if len(missed) > 0 {
		return fmt.Errorf("%d of %d mutants were not caught: %s", len(missed), tried, strings.Join(missed, ", "))
	}
	return nil
}

// moduleRoot returns the folder of the go.mod above the working directory.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no go.mod above the working directory")
		}
		dir = parent
	}
}
