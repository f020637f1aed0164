package rollout

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// record is the owner's annotation of a workload: the contents that its pods run.
type record struct {
	Hash string `json:"hash"`
	// At is when the record was written, to the second.
	At time.Time `json:"at"`
	// Adopted is true for a baseline record. The record of a restart sets the template's annotation to Hash.
	Adopted bool `json:"adopted,omitempty"`
	// Last is when the last restart before a baseline record was written.
	Last time.Time `json:"last,omitzero"`
	// Done means that the restart was seen to be complete. It is recorded only if the workload's status cannot show it later.
	Done bool `json:"done,omitempty"`
	// Version is the version of an object that Fettle does not publish.
	Version string `json:"version,omitempty"`
	// Template is the template's annotation at the time of a baseline record.
	Template string `json:"template,omitempty"`
}

func restartRecord(hash string, now time.Time) record {
	return record{Hash: hash, At: now.UTC().Truncate(time.Second)}
}

func baselineRecord(hash, template string, last, now time.Time) record {
	return record{Hash: hash, At: now.UTC().Truncate(time.Second), Adopted: true, Template: template, Last: last}
}

// restartedAt is when the owner last restarted the workload; zero if unknown.
func (n record) restartedAt() time.Time {
	if n.Adopted {
		return n.Last
	}
	return n.At
}

func (n record) withVersion(version string) record {
	n.Version = version
	return n
}

func (n record) withDone() record {
	n.Done = true
	return n
}

// template is the annotation that the pod template had when the record was written.
func (n record) template() string {
	if n.Adopted {
		return n.Template
	}
	return n.Hash
}

func (n record) String() string {
	raw, err := json.Marshal(n)
	if err != nil {
		panic(fmt.Sprintf("encode record: %v", err))
	}
	return string(raw)
}

// parseRecord returns nil if text is not a record.
func parseRecord(text string) *record {
	var n record
	if err := json.Unmarshal([]byte(text), &n); err != nil || n.Hash == "" {
		return nil
	}
	return &n
}

// runs returns the hash of the owner's contents that the pods of w are known to run, and the record that names it. Without a valid record,
// the template's annotation decides. hash is "" if neither exists, or if the template changed since and its pods were restarted.
func (o Owner) runs(w *Workload) (hash string, by *record) {
	key := o.annotation()
	template := w.templates[key]
	n := parseRecord(w.records[key])
	switch {
	case n == nil:
		return template, nil
	case n.template() != template:
		return "", nil
	default:
		return n.Hash, n
	}
}

// LastRestart names the object whose change last restarted the pods of a workload, for example `ConfigMap "settings"`. It reads the
// annotations of the workload and of its pod template. It is "" if unknown.
func LastRestart(workload, template map[string]string) string {
	var what string
	var last time.Time
	for key, text := range workload {
		prefix, name, _ := strings.Cut(key, "/")
		if n := parseRecord(text); ownerKinds[prefix] != "" && n != nil && !n.Adopted && n.Hash == template[key] && n.At.After(last) {
			what, last = fmt.Sprintf("%s %q", ownerKinds[prefix], name), n.At
		}
	}
	return what
}

// longestName is the maximum length of the name in an annotation.
const longestName = 63

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

// Owners returns the names of the AppConfigs (ConfigPrefix) or VoteConfigs (VotingPrefix) that w names or has a record of, whatever w
// refers to.
func (w *Workload) Owners(prefix string) []string {
	owners := ownersIn(w.records, prefix)
	for _, token := range w.uses {
		kind, name, found := strings.Cut(token, "/")
		if !found {
			kind, name = ownerKinds[ConfigPrefix], token
		}
		if kind == ownerKinds[prefix] {
			owners = append(owners, name)
		}
	}
	return owners
}

// ownersIn returns the names of the owners of records.
func ownersIn(records map[string]string, prefix string) []string {
	var owners []string
	for _, key := range slices.Sorted(maps.Keys(records)) {
		if name, ok := strings.CutPrefix(key, prefix+"/"); ok && key != UsesAnnotation {
			owners = append(owners, strings.TrimSuffix(name, "_"))
		}
	}
	return owners
}
