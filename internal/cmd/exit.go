package cmd

import "errors"

// exitError is an error with the exit code of the process.
type exitError struct {
	code int
	error
}

func (e *exitError) Unwrap() error { return e.error }

// ExitCode returns the exit code of a process that ends with an error of Execute.
func ExitCode(err error) int {
	if known := (*exitError)(nil); errors.As(err, &known) {
		return known.code
	}
	return 1
}
