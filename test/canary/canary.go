// Package canary searches texts such as logs, events and objects for values that must stay secret. Its reports name a value and never
// contain it.
package canary

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// shortest is the minimum length of a value in bytes: shorter ones occur in texts by chance.
const shortest = 8

// public are the keys of Secrets whose values are not secret.
var public = []string{
	"ca.crt", "tls.crt", "host", "port", "user", "username", "dbname", "sslmode", "POSTGRES_HOST", "POSTGRES_PORT", "POSTGRES_USER", "POSTGRES_DB",
}

// Values are the values to search for. The zero value is ready to use; it is safe for concurrent use.
type Values struct {
	mu    sync.Mutex
	known map[string]bool
	// forms are the encodings of the values, by their first bytes, so a text is searched once for all of them.
	forms map[string][]form
}

type form struct{ text, name string }

// AddSecret adds the values of a Secret, except public and short ones.
func (v *Values) AddSecret(name string, data map[string][]byte) {
	for key, value := range data {
		if !slices.Contains(public, key) && !strings.HasPrefix(string(value), "-----BEGIN CERTIFICATE") {
			v.Add(fmt.Sprintf("key %s of Secret %s", key, name), string(value))
		}
	}
}

// Add adds a value under a name for reports.
func (v *Values) Add(name, value string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(value) < shortest || v.known[value] {
		return
	}
	if v.known == nil {
		v.known, v.forms = map[string]bool{}, map[string][]form{}
	}
	v.known[value] = true
	for _, text := range formsOf(value) {
		v.forms[text[:shortest]] = append(v.forms[text[:shortest]], form{text, name})
	}
}

// Len is the number of values.
func (v *Values) Len() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.known)
}

// formsOf returns the encodings of a value in a text: raw, JSON-escaped, and in base64, alone or as a part.
func formsOf(value string) []string {
	forms := map[string]bool{value: true}
	if escaped, err := json.Marshal(value); err == nil {
		forms[strings.Trim(string(escaped), `"`)] = true
	}
	for before := range 3 { // bytes before it that share a group of four characters with it
		bits := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("\x00", before) + value))
		whole := (before + len(value)) / 3 * 4 // the text after the value may change the rest
		forms[bits[(before*8+5)/6:whole]] = true
	}
	maps.DeleteFunc(forms, func(text string, _ bool) bool { return len(text) < shortest })
	return slices.Sorted(maps.Keys(forms))
}

// In returns the names of the values in a text, each once.
func (v *Values) In(text string) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	found := map[string]bool{}
	for at := 0; at+shortest <= len(text); at++ {
		for _, f := range v.forms[text[at:at+shortest]] {
			if strings.HasPrefix(text[at:], f.text) {
				found[f.name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// InObject returns a line for each value in an object (decoded JSON), with its path.
func (v *Values) InObject(object any) []string {
	var found []string
	v.walk("", object, &found)
	slices.Sort(found)
	return found
}

func (v *Values) walk(path string, at any, found *[]string) {
	say := func(where, text string) {
		for _, name := range v.In(text) {
			*found = append(*found, name+", at "+where)
		}
	}
	switch at := at.(type) {
	case string:
		say(path, at)
	case []any:
		for i, item := range at {
			v.walk(fmt.Sprintf("%s[%d]", path, i), item, found)
		}
	case map[string]any:
		for key, item := range at {
			if names := v.In(key); len(names) > 0 { // the path must not contain it
				say(path+", as a key", key)
				key = "…"
			}
			v.walk(path+"."+key, item, found)
		}
	}
}
