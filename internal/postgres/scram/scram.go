// Package scram computes SCRAM-SHA-256 verifiers, which PostgreSQL stores instead of passwords, so that no statement
// contains a password. It also generates passwords.
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

// SaltSize is the size of a salt in bytes, as in PostgreSQL.
const SaltSize = 16

const (
	// iterations is PostgreSQL's default.
	iterations = 4096
	// maxPassword is the maximum length of a password in libpq.
	maxPassword = 1024
	scheme      = "SCRAM-SHA-256"
)

// Verifier computes a SCRAM-SHA-256 verifier from a password and a salt of SaltSize bytes, in the format of
// pg_authid.rolpassword (RFC 5803). The result is deterministic. Servers reveal the salt to clients that try to log in, so
// it must reveal nothing about the password, and must be unique for each login of each server.
func Verifier(password string, salt []byte) (string, error) {
	if len(salt) != SaltSize {
		return "", fmt.Errorf("the salt has %d bytes: it must have %d", len(salt), SaltSize)
	}
	if password == "" {
		return "", errors.New("the password is empty")
	}
	if len(password) > maxPassword {
		return "", fmt.Errorf("the password has %d bytes: PostgreSQL clients support at most %d", len(password), maxPassword)
	}
	if strings.ContainsRune(password, 0) {
		return "", errors.New("the password contains a zero byte")
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

// alphabet has 64 characters that need no escape in a URI: six bits of a byte select one.
const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// passwordSize gives 192 bits.
const passwordSize = 32

// Generate generates a password of 32 letters, digits, "-" and "_". It starts with a letter, so that no program takes it
// for an option.
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
