package rollout

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strings"

	"github.com/fettle-dev/fettle/internal/digest"
)

// A hash identifies the used keys (useDigits) and their contents (contentDigits). If contents of Secrets are among them, it also identifies
// the digest key.
const (
	useDigits     = 8
	contentDigits = 24
	hashDigits    = useDigits + contentDigits
	// shownDigits is how many digits of a hash a status shows.
	shownDigits = 10
)

func isHash(h string) bool { return len(h) == hashDigits || len(h) == hashDigits+digest.IDDigits }

// sameUse reports whether two hashes cover the same keys and can be compared.
func sameUse(a, b string) bool {
	return isHash(a) && isHash(b) && a[:useDigits] == b[:useDigits] && a[hashDigits:] == b[hashDigits:]
}

// rekeyed reports whether two hashes cover the same keys with different digest keys, or with a release that had none. Their contents cannot
// be compared.
func rekeyed(a, b string) bool {
	return isHash(a) && isHash(b) && a[:useDigits] == b[:useDigits] && a[hashDigits:] != b[hashDigits:]
}

// unknownContents is a hash for the same keys that matches no contents. It stands for pods that may have started with either of two
// versions.
func unknownContents(h string) string {
	return h[:useDigits] + strings.Repeat("0", contentDigits) + h[hashDigits:]
}

// sameContent reports whether two hashes cover the same contents, under whatever names.
func sameContent(a, b string) bool { return isHash(a) && isHash(b) && a[useDigits:] == b[useDigits:] }

// shortHash is the part of the content hash that a status shows.
func shortHash(h string) string {
	if !isHash(h) {
		return ""
	}
	return h[useDigits : useDigits+shownDigits]
}

// use is a workload's use of one object.
type use struct {
	object *Object
	// name is the name in the reference; the object's target if there is no reference.
	name string
	// key is "" for all keys.
	key string
	// referred is false if the workload is a dependant for a reason other than a reference.
	referred bool
	optional bool
}

// hashOf covers the used names and keys, in the given order, and their contents. Contents of Secrets enter through a digest with key. The
// owner and the target stand for the objects and outlive them: a re-created object restarts nothing.
func hashOf(key digest.Key, owner Owner, uses []use) string {
	plain, secret, id := sha256.New(), key.New(), ""
	writeAll(secret, owner.Namespace)
	for _, u := range uses {
		into := plain
		if u.object.Kind == Secret {
			into, id = secret, key.ID()
		}
		writeAll(into, owner.Prefix, owner.Name, u.object.Kind, u.object.Target)
		writeContents(into, u)
	}
	if id != "" {
		_, _ = plain.Write(secret.Sum(nil))
	}
	return useOf(uses) + hex.EncodeToString(plain.Sum(nil))[:contentDigits] + id
}

// useOf is the part of a hash that identifies the used keys.
func useOf(uses []use) string {
	names := sha256.New()
	for _, u := range uses {
		writeAll(names, u.object.Kind, u.name, u.key)
	}
	return hex.EncodeToString(names.Sum(nil))[:useDigits]
}

// writeContents distinguishes missing keys from empty ones.
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

// writeAll writes texts in an unambiguous encoding.
func writeAll(into hash.Hash, texts ...string) {
	for _, t := range texts {
		_, _ = fmt.Fprintf(into, "%d:%s", len(t), t)
	}
}

// VersionDigits is how many digits of the content hash end a version's name, after a dash.
const VersionDigits = 10

// VersionName is the name of the version of target with that content hash.
func VersionName(target, hash string) string {
	return target + "-" + hash[:min(VersionDigits, len(hash))]
}

// BaseOf returns the target that name is a version of; false if name does not have the form of a version.
func BaseOf(name string) (string, bool) {
	at := len(name) - VersionDigits - 1
	if at <= 0 || name[at] != '-' {
		return "", false
	}
	for _, c := range name[at+1:] {
		if !strings.ContainsRune("0123456789abcdef", c) {
			return "", false
		}
	}
	return name[:at], true
}
