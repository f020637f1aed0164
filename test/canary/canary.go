// Package canary finds values that must stay secret in texts where they must not be: logs, events, objects. What it says of a find
// names the value and never holds it.
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

// Shortest is the length in bytes of the shortest value that is looked for: shorter ones are in a text by chance.
const Shortest = 8

// public are the keys of Secrets whose values are no secret.
var public = []string{
	"ca.crt", "tls.crt", "host", "port", "user", "username", "dbname", "sslmode", "POSTGRES_HOST", "POSTGRES_PORT", "POSTGRES_USER", "POSTGRES_DB",
}

// Values are what is looked for. The zero value is ready; it is safe for concurrent use.
type Values struct {
	mu    sync.Mutex
	known map[string]bool
	// forms are how a value may be written, by the first bytes of each: a text is looked through once for all of them.
	forms map[string][]form
}

type form struct{ text, name string }

// AddSecret has the values of a Secret be looked for, but those that are public or too short.
func (v *Values) AddSecret(name string, data map[string][]byte) {
	for key, value := range data {
		if !slices.Contains(public, key) && !strings.HasPrefix(string(value), "-----BEGIN CERTIFICATE") {
			v.Add(fmt.Sprintf("key %s of Secret %s", key, name), string(value))
		}
	}
}

// Add has a value be looked for, under a name by which it is reported.
func (v *Values) Add(name, value string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(value) < Shortest || v.known[value] {
		return
	}
	if v.known == nil {
		v.known, v.forms = map[string]bool{}, map[string][]form{}
	}
	v.known[value] = true
	for _, text := range formsOf(value) {
		v.forms[text[:Shortest]] = append(v.forms[text[:Shortest]], form{text, name})
	}
}

// Len is the number of values.
func (v *Values) Len() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.known)
}

// formsOf are the ways in which a value may be written into a text: as it is, as JSON escapes it, and in base64, alone or as a part.
func formsOf(value string) []string {
	forms := map[string]bool{value: true}
	if escaped, err := json.Marshal(value); err == nil {
		forms[strings.Trim(string(escaped), `"`)] = true
	}
	for before := range 3 { // bytes before it that share a group of four characters with it
		bits := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("\x00", before) + value))
		whole := (before + len(value)) / 3 * 4 // what follows the value may change what is after that
		forms[bits[(before*8+5)/6:whole]] = true
	}
	maps.DeleteFunc(forms, func(text string, _ bool) bool { return len(text) < Shortest })
	return slices.Sorted(maps.Keys(forms))
}

// In returns the names of the values that a text holds, each once.
func (v *Values) In(text string) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	found := map[string]bool{}
	for at := 0; at+Shortest <= len(text); at++ {
		for _, f := range v.forms[text[at:at+Shortest]] {
			if strings.HasPrefix(text[at:], f.text) {
				found[f.name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// InObject returns where in an object, as JSON is decoded, which value is: a line for each.
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
			if names := v.In(key); len(names) > 0 { // the path must not hold it
				say(path+", as a key", key)
				key = "…"
			}
			v.walk(path+"."+key, item, found)
		}
	}
}
