// Command shared-apiserver runs a command while an API server for tests is up, and lets every test binary below it share that
// server instead of starting one each. When the command has ended, shared-apiserver ends the processes and removes the shared memory
// that killed tests left behind:
//
//	go run ./internal/testenv/shared-apiserver go test ./...
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/fettle-dev/fettle/internal/testenv"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "shared-apiserver:", err)
	}
	os.Exit(code)
}

func run(command []string) (code int, err error) {
	if len(command) == 0 {
		return 2, errors.New("usage: shared-apiserver COMMAND [ARGUMENT...]")
	}
	clean, err := prepareCleanUp()
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, clean()) }()
	env, err := testenv.Start(testenv.Options{Fast: true})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, env.Stop()) }()
	dir, err := env.Share()
	if err != nil {
		return 1, err
	}
	child := exec.Command(command[0], command[1:]...)
	child.Env = append(os.Environ(), testenv.SharedVariable+"="+dir)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	// The terminal sends an interrupt to the command too: wait until the command exits, then clean up.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if err := child.Start(); err != nil {
		return 1, err
	}
	defer reapOrphans()()
	go func() {
		for s := range signals {
			if s == syscall.SIGTERM {
				_ = child.Process.Signal(s) // it may have ended meanwhile
			}
		}
	}()
	err = child.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(exit.ExitCode(), 1), nil
	}
	if err != nil {
		return 1, err
	}
	return 0, nil
}
