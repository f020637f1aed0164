// Package scram makes what PostgreSQL stores instead of a password, so that no password is ever part of a statement, and
// generates passwords.
package scram

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// SaltSize is how many bytes a salt has: as many as PostgreSQL's own.
const SaltSize = 16

const (
	// iterations are those of PostgreSQL.
	iterations = 4096
	// maxPassword is how long a password can be for libpq.
	maxPassword = 1024
	scheme      = "SCRAM-SHA-256"
)

// Verifier makes a SCRAM-SHA-256 verifier of a password and a salt of SaltSize bytes, in the form of pg_authid.rolpassword (RFC 5803).
// The same password and salt make the same verifier. Servers show the salt to whoever tries to log in, so it must say nothing of the
// password, and be of one login of one server.
func Verifier(password string, salt []byte) (string, error) {
	if len(salt) != SaltSize {
		return "", fmt.Errorf("the salt has %d bytes: it must have %d", len(salt), SaltSize)
	}
	if password == "" {
		return "", errors.New("the password is empty")
	}
	if len(password) > maxPassword {
		return "", fmt.Errorf("the password has %d bytes; clients of PostgreSQL send at most %d", len(password), maxPassword)
	}
	if strings.ContainsRune(password, 0) {
		return "", errors.New("the password has a zero byte")
	}
	salted, err := pbkdf2.Key(sha256.New, saslPrep(password), salt, iterations, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("derive a key from the password: %w", err)
	}
	stored := sha256.Sum256(sign(salted, "Client Key"))
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("%s$%d:%s$%s:%s", scheme, iterations, encode(salt), encode(stored[:]), encode(sign(salted, "Server Key"))), nil
}

func sign(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// alphabet has letters and digits, and what needs no escape in a URI. 64 of them: a byte's six bits choose one.
const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// passwordSize is for 192 bits.
const passwordSize = 32

// Generate makes a password of 32 letters and digits, "-" and "_". It begins with a letter, so that no program takes it for
// an option. The error is that of the system's source of random numbers.
func Generate() (string, error) {
	random := make([]byte, passwordSize)
	if _, err := rand.Read(random); err != nil {
		return "", fmt.Errorf("generate a password: %w", err)
	}
	for i, b := range random {
		random[i] = alphabet[b%64]
	}
	random[0] = alphabet[random[0]%52]
	return string(random), nil
}
