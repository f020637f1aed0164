// Package testscram makes and compares SCRAM-SHA-256 verifiers for tests.
package testscram

import (
	"crypto/rand"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/fettle-dev/fettle/internal/postgres/scram"
)

// Verifier makes a verifier of a password, with a new salt.
func Verifier(t testing.TB, password string) string {
	t.Helper()
	salt := make([]byte, scram.SaltSize)
	_, _ = rand.Read(salt) // it never fails
	text, err := scram.Verifier(password, salt)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Matches says whether a verifier was made from a password. Anything that is no verifier matches nothing.
func Matches(stored, password string) bool {
	_, rest, _ := strings.Cut(stored, ":")
	encoded, _, _ := strings.Cut(rest, "$")
	salt, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return false
	}
	again, err := scram.Verifier(password, salt)
	return err == nil && again == stored
}
