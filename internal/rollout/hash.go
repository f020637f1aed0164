package rollout

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strings"

	"k8s.io/utils/lru"
)

const (
	// useDigits begin a hash and say what is used, the rest says what it contains.
	useDigits     = 8
	contentDigits = 24
	// hashDigits is how much of a hash a status shows.
	shownDigits = 10
	// secretRounds slow down whoever can read workloads, but not Secrets, and tries to guess the contents from the hash.
	secretRounds = 20_000
	// hashesKept bounds the memory of slow hashes; one that was dropped is computed again.
	hashesKept = 20_000
)

// sameUse reports whether two hashes are of the same keys.
func sameUse(a, b string) bool {
	return len(a) == useDigits+contentDigits && len(a) == len(b) && a[:useDigits] == b[:useDigits]
}

// unknown is a hash for the same keys that no contents have: what pods run that may have been started with either of two.
func unknown(h string) string { return h[:useDigits] + strings.Repeat("0", contentDigits) }

// sameContent reports whether two hashes are of the same contents, under whatever names.
func sameContent(a, b string) bool {
	return len(a) == useDigits+contentDigits && len(a) == len(b) && a[useDigits:] == b[useDigits:]
}

// short is what a status shows of a hash: of its contents.
func short(h string) string {
	if len(h) != useDigits+contentDigits {
		return ""
	}
	return h[useDigits : useDigits+shownDigits]
}

// use is what a workload uses of one object.
type use struct {
	object *Object
	// name is the one that the reference gives; the object's target where there is none.
	name string
	// key is "" for all keys.
	key string
	// referred is false where the workload is a dependant for another reason than a reference.
	referred bool
	optional bool
}

// hasher turns what is used into a hash. Its memory of slow hashes is for speed alone.
type hasher struct {
	slow *lru.Cache
}

func newHasher() *hasher { return &hasher{slow: lru.New(hashesKept)} }

// hash covers the names and keys that are used, in the order given, and their contents. The salt for what comes from Secrets
// is the owner and the target: it outlives both objects, so that one that is made anew restarts nobody.
func (h *hasher) hash(owner Owner, uses []use) string {
	names, plain, secret := sha256.New(), sha256.New(), sha256.New()
	secrets := false
	for _, u := range uses {
		writeAll(names, u.object.Kind, u.name, u.key)
		into := plain
		if u.object.Kind == Secret {
			into, secrets = secret, true
		}
		writeAll(into, owner.Prefix, owner.Name, u.object.Kind, u.object.Target)
		writeContents(into, u)
	}
	if secrets {
		_, _ = plain.Write(h.stretch(secret.Sum(nil), owner.Prefix+"/"+owner.Namespace+"/"+owner.Name))
	}
	return hex.EncodeToString(names.Sum(nil))[:useDigits] + hex.EncodeToString(plain.Sum(nil))[:contentDigits]
}

// writeContents tells missing keys from empty ones.
func writeContents(into hash.Hash, u use) {
	if u.key != "" {
		value, found := u.object.Data[u.key]
		writeAll(into, u.key, fmt.Sprint(found), string(value))
		return
	}
	writeAll(into, fmt.Sprint(u.object.Exists, len(u.object.Data)))
	for _, key := range slices.Sorted(maps.Keys(u.object.Data)) {
		writeAll(into, key, string(u.object.Data[key]))
	}
}

// writeAll writes texts so that no other texts give the same bytes.
func writeAll(into hash.Hash, texts ...string) {
	for _, t := range texts {
		_, _ = fmt.Fprintf(into, "%d:%s", len(t), t)
	}
}

// stretch makes a hash slow (PBKDF2, RFC 8018).
func (h *hasher) stretch(sum []byte, salt string) []byte {
	id := salt + "\x00" + string(sum)
	if known, ok := h.slow.Get(id); ok {
		return known.([]byte)
	}
	key, err := pbkdf2.Key(sha256.New, string(sum), []byte(salt), secretRounds, sha256.Size)
	if err != nil {
		panic(fmt.Sprintf("PBKDF2 refuses its constant parameters: %v", err))
	}
	h.slow.Add(id, key)
	return key
}
