package rollout

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// record is the owner's annotation of a workload: what its pods run.
type record struct {
	Hash string `json:"hash"`
	// At is when the note was written, to the second.
	At time.Time `json:"at"`
	// Adopted tells the note of what was found from that of a restart, which sets the template's annotation to Hash.
	Adopted bool `json:"adopted,omitempty"`
	// Last is when the last restart was that came before an adoption.
	Last time.Time `json:"last,omitzero"`
	// Done tells that the restart was seen to be complete. It is noted only where the workload's status can't tell later.
	Done bool `json:"done,omitempty"`
	// Version is that of the object, where it is one that Fettle does not publish.
	Version string `json:"version,omitempty"`
	// Template is what was found as the template's annotation.
	Template string `json:"template,omitempty"`
}

func restartRecord(hash string, now time.Time) record {
	return record{Hash: hash, At: now.UTC().Truncate(time.Second)}
}

func baselineRecord(hash, template string, last, now time.Time) record {
	return record{Hash: hash, At: now.UTC().Truncate(time.Second), Adopted: true, Template: template, Last: last}
}

// restartedAt is when the owner last restarted the workload; zero if that is not known.
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

// template is the annotation that the pod template had when the note was written.
func (n record) template() string {
	if n.Adopted {
		return n.Template
	}
	return n.Hash
}

func (n record) String() string {
	raw, err := json.Marshal(n)
	if err != nil {
		panic(fmt.Sprintf("a note has no JSON form: %v", err))
	}
	return string(raw)
}

// parseRecord returns nil for what is no note.
func parseRecord(text string) *record {
	var n record
	if err := json.Unmarshal([]byte(text), &n); err != nil || n.Hash == "" {
		return nil
	}
	return &n
}

// runs returns what the pods of w are known to run of the owner's configuration, and the note that says so. Without a valid
// note, the template's annotation tells. hash is "" when nothing does: there is neither, or the template was changed since,
// so that its pods were started anew.
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

// LastRestart tells for whose change the pods of a workload were last restarted, by the annotations of the workload and of its pod
// template: for example `ConfigMap "settings"`. It is "" where that is not known.
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
