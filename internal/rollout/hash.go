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

// A hash says what is used (useDigits), what that contains (contentDigits), and, where contents of Secrets are among it, the
// digest key that it was made with.
const (
	useDigits     = 8
	contentDigits = 24
	hashDigits    = useDigits + contentDigits
	// shownDigits is how much of a hash a status shows.
	shownDigits = 10
)

func isHash(h string) bool { return len(h) == hashDigits || len(h) == hashDigits+digest.IDDigits }

// sameUse reports whether two hashes are of the same keys, and can be compared.
func sameUse(a, b string) bool {
	return isHash(a) && isHash(b) && a[:useDigits] == b[:useDigits] && a[hashDigits:] == b[hashDigits:]
}

// rekeyed reports whether two hashes are of the same keys, but of two digest keys, or one of a release that had none: whether
// they are of the same contents can't be known.
func rekeyed(a, b string) bool {
	return isHash(a) && isHash(b) && a[:useDigits] == b[:useDigits] && a[hashDigits:] != b[hashDigits:]
}

// unknownContents is a hash for the same keys that no contents have: what pods run that may have been started with either of two.
func unknownContents(h string) string {
	return h[:useDigits] + strings.Repeat("0", contentDigits) + h[hashDigits:]
}

// sameContent reports whether two hashes are of the same contents, under whatever names.
func sameContent(a, b string) bool { return isHash(a) && isHash(b) && a[useDigits:] == b[useDigits:] }

// shortHash is what a status shows of a hash: of its contents.
func shortHash(h string) string {
	if !isHash(h) {
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

// hashOf covers the names and keys that are used, in the order given, and their contents. What comes from Secrets enters through a
// digest with key. The owner and the target stand for the objects, and outlive them: one that is re-created restarts nobody.
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

// useOf is the part of a hash that says what is used.
func useOf(uses []use) string {
	names := sha256.New()
	for _, u := range uses {
		writeAll(names, u.object.Kind, u.name, u.key)
	}
	return hex.EncodeToString(names.Sum(nil))[:useDigits]
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
