package config

import (
	"crypto/sha256"
	"encoding/hex"
)

const (
	// loginPrefix begins the second login of a role. Users can't have roles whose names begin with "fettle".
	loginPrefix = "fettle_login_"
	// shortPrefix begins that of a role whose name is too long for the first prefix, so that none has the name of another.
	shortPrefix = "fettle_hash_"
	// maxName is how many bytes of a name PostgreSQL keeps.
	maxName = 63
)

// SecondLogin is the name of the login that stands beside a role, for its password to be changed while the former one is
// still valid. It is of at most 63 bytes, always the same for a role, and another one for each.
func SecondLogin(role string) string {
	if len(loginPrefix)+len(role) <= maxName {
		return loginPrefix + role
	}
	sum := sha256.Sum256([]byte(role))
	hash := "_" + hex.EncodeToString(sum[:6])
	return shortPrefix + role[:maxName-len(shortPrefix)-len(hash)] + hash
}
