package render

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Validate validates the rendered texts against their schemas. Its error is an *Error that names keys and the rules that they break. It
// never contains the text of a secret key.
func Validate(out Output, s Schemas) error {
	v := validator{out: out, regexps: &patternMatcher{left: maxMatch}}
	if len(s.Config) > 0 {
		v.config(s.Config)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		if !slices.Contains(out.Files, name) {
			v.faults.add("schema.files["+name+"]", "there is no file of that name")
			continue
		}
		v.file(name, s.Files[name])
	}
	return v.faults.err(v.more)
}

type validator struct {
	out     Output
	regexps *patternMatcher
	faults  faults
	more    int
}

// config validates the keys that are not files against their schema.
func (v *validator) config(schema []byte) {
	c, ok := v.compile("schema.config", schema)
	if !ok {
		return
	}
	object := map[string]any{}
	for _, half := range []map[string]string{v.out.Data, v.out.Secret} {
		for key, text := range half {
			if _, file := slices.BinarySearch(v.out.Files, key); !file {
				object[key] = text
			}
		}
	}
	v.compare("config", c, object, func(path []string) bool {
		if len(path) == 0 {
			return false
		}
		_, secret := v.out.Secret[path[0]]
		return secret
	})
}

func (v *validator) file(name string, schema []byte) {
	c, ok := v.compile("schema.files["+name+"]", schema)
	if !ok {
		return
	}
	where := "files[" + name + "]"
	text, secret := v.out.text(name)
	doc, flaw := document(name, text, maxSchemaWork/c.size)
	if flaw != nil {
		v.faults = append(v.faults, flaw.fault(where, secret))
		return
	}
	v.compare(where, c, doc, func([]string) bool { return secret })
}

func (v *validator) compile(where string, schema []byte) (compiled, bool) {
	c, err := compile(schema, v.regexps)
	if err != nil {
		v.faults.add(where, "%s", err)
	}
	return c, err == nil
}

// compare adds a fault for each rule that doc breaks; secret reports whether the value at a path must not be quoted.
func (v *validator) compare(where string, c compiled, doc any, secret func(path []string) bool) {
	size, err := countParts(doc, visitAnyKey)
	if err != nil {
		v.faults.add(where, "%s", err)
		return
	}
	if size*c.size > maxSchemaWork {
		v.faults.add(where, "%d parts are too many for a schema of %d: their product is at most %d", size, c.size, maxSchemaWork)
		return
	}
	err = c.schema.Validate(doc)
	if v.regexps.left < 0 {
		v.faults.add(where, "the patterns of its schema take too long: make them or the texts shorter")
		return
	}
	broken, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return
	}
	rules := brokenRules(broken, nil)
	slices.SortFunc(rules, func(a, b *jsonschema.ValidationError) int {
		return cmp.Or(slices.Compare(a.InstanceLocation, b.InstanceLocation), cmp.Compare(a.SchemaURL, b.SchemaURL),
			slices.Compare(a.ErrorKind.KeywordPath(), b.ErrorKind.KeywordPath()))
	})
	n := min(len(rules), maxFaults)
	for _, rule := range rules[:n] {
		v.faults = append(v.faults, ruleFault(where, rule, secret(rule.InstanceLocation)))
	}
	v.more += len(rules) - n
}
