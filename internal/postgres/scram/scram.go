// Package scram makes what PostgreSQL stores instead of a password, so that no password is ever part of a statement, and
// generates passwords.
package scram

import "errors"

// Verifier makes a SCRAM-SHA-256 verifier of a password, with a new salt, in the form of pg_authid.rolpassword.
func Verifier(_ string) (string, error) { return "", errors.ErrUnsupported }

// Matches says whether a verifier was made from a password. Anything that is no verifier matches nothing.
func Matches(_, _ string) bool { return false }

// Generate makes a password of 32 letters and digits, "-" and "_": about 190 bits.
func Generate() (string, error) { return "", errors.ErrUnsupported }
