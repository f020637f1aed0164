package rollout

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// VersionDigits is how many digits of the content hash end a version's name, after a dash.
const VersionDigits = 10

// longestName is the maximum length of the name in an annotation.
const longestName = 63

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

// annotation is the name of the owner's annotations. It never equals UsesAnnotation: names of objects contain no underscore.
func (o Owner) annotation() string {
	name := o.Name
	if len(name) > longestName {
		sum := sha256.Sum256([]byte(name))
		name = name[:longestName-VersionDigits-1] + "-" + hex.EncodeToString(sum[:])[:VersionDigits]
	}
	if key := o.Prefix + "/" + name; key != UsesAnnotation {
		return key
	}
	return UsesAnnotation + "_"
}

// token names the owner in UsesAnnotation.
func (o Owner) token() string {
	if o.Prefix == ConfigPrefix {
		return o.Name
	}
	return ownerKinds[o.Prefix] + "/" + o.Name
}

// plain reports whether the owner is an object that Fettle does not publish.
func (o Owner) plain() bool { return o.Prefix == ConfigMapPrefix || o.Prefix == SecretPrefix }

func isFettleAnnotation(annotation string) bool {
	prefix, _, _ := strings.Cut(annotation, "/")
	return ownerKinds[prefix] != "" || annotation == FormerHashAnnotation || annotation == CreatedWithAnnotation
}
