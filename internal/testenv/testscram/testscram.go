// Package testscram computes and compares SCRAM-SHA-256 verifiers in tests.
package testscram

import (
	"crypto/rand"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/fettle-dev/fettle/internal/postgres/scram"
)

// Verifier computes the verifier of a password with a new salt.
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

// Matches returns whether a verifier belongs to a password. It is false for invalid verifiers.
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
