package config

import (
	"crypto/sha256"
	"encoding/hex"
)

const (
	// loginPrefix is the prefix of second logins. Users cannot create roles whose names start with "fettle".
	loginPrefix = "fettle_login_"
	// shortPrefix is the prefix for long role names. It keeps the names distinct.
	shortPrefix = "fettle_hash_"
	// maxName is the maximum length of a name in PostgreSQL, in bytes.
	maxName = 63
)

// SecondLogin is the name of a role's second login, which allows the password to be changed while the old one is still
// valid. It has at most 63 bytes, and is stable and unique for each role.
func SecondLogin(role string) string {
	if len(loginPrefix)+len(role) <= maxName {
		return loginPrefix + role
	}
	sum := sha256.Sum256([]byte(role))
	hash := "_" + hex.EncodeToString(sum[:6])
	return shortPrefix + role[:maxName-len(shortPrefix)-len(hash)] + hash
}
