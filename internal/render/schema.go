package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// CheckSchema checks that schema, a JSON Schema as JSON, is usable. Supported drafts are 2020-12 (the default), 2019-09 and 7. It must not
// contain references ($ref and similar). The validation of a document therefore takes at most the number of rules times the number of parts
// of the document. Its error is an *Error.
func CheckSchema(schema []byte) error {
	var found faults
	if _, err := compile(schema, &patternMatcher{}); err != nil {
		found.add("schema", "%s", err)
	}
	return found.err(0)
}

// drafts are the allowed values of $schema.
var drafts = []string{
	"https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/draft/2019-09/schema",
	"http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-07/schema",
}

// compiled is a usable schema.
type compiled struct {
	schema *jsonschema.Schema
	size   int // number of its parts, see countParts
}

func compile(schema []byte, regexps *patternMatcher) (compiled, error) {
	if len(schema) > maxSchema {
		return compiled{}, fmt.Errorf("it has %d bytes, at most %d are allowed", len(schema), maxSchema)
	}
	if f := checkJSON(string(schema)); f != nil {
		return compiled{}, fmt.Errorf("it is not valid JSON: line %d: %s", f.line, f.text)
	}
	root, f := decodeJSON(string(schema))
	if f != nil {
		return compiled{}, errors.New(f.text)
	}
	size, err := countParts(root, visitSchemaKey)
	if err != nil {
		return compiled{}, err
	}
	if object, ok := root.(map[string]any); ok && object["$schema"] != nil {
		if draft, _ := object["$schema"].(string); !slices.Contains(drafts, draft) {
			return compiled{}, fmt.Errorf("$schema is not one of %s", strings.Join(drafts, ", "))
		}
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(rejectingLoader{})
	compiler.UseRegexpEngine(regexps.compile)
	if err := compiler.AddResource(schemaURL, root); err != nil {
		return compiled{}, err
	}
	result, err := compiler.Compile(schemaURL)
	if err != nil {
		return compiled{}, schemaError(err)
	}
	return compiled{schema: result, size: size}, nil
}

// schemaURL is the name of a schema during validation; it is never fetched.
const schemaURL = "schema:///schema"

// rejectingLoader rejects references to other schemas.
type rejectingLoader struct{}

func (rejectingLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is not loaded: a schema must be self-contained", url)
}

// workUnit is how many bytes of text count as one part of a document.
const workUnit = 256

// countParts returns the number of parts of a JSON value. It returns an error if the value nests too deeply or contains a number that is
// too expensive to compute with. visit gets each key of an object, and returns whether the value counts.
func countParts(v any, visit func(key string) (bool, error)) (int, error) {
	return countPartsAt(v, visit, 0)
}

func countPartsAt(v any, visit func(string) (bool, error), depth int) (int, error) {
	if depth > maxNesting {
		return 0, fmt.Errorf("it nests deeper than %d", maxNesting)
	}
	switch v := v.(type) {
	case string:
		return 1 + len(v)/workUnit, nil
	case json.Number:
		return 1, checkNumber(v.String())
	case []any:
		size := 1
		for _, item := range v {
			n, err := countPartsAt(item, visit, depth+1)
			if err != nil {
				return 0, err
			}
			size += n
		}
		return size, nil
	case map[string]any:
		return countObjectParts(v, visit, depth)
	default:
		return 1, nil
	}
}

func countObjectParts(object map[string]any, visit func(string) (bool, error), depth int) (int, error) {
	size := 1
	for _, key := range slices.Sorted(maps.Keys(object)) { // sorted, so the first error is deterministic
		counts, err := visit(key)
		if err != nil {
			return 0, err
		}
		n, err := countPartsAt(object[key], visit, depth+1)
		if err != nil {
			return 0, err
		}
		if counts {
			size += n + len(key)/workUnit
		}
	}
	return size, nil
}

// checkNumber rejects numbers that are expensive to compute with: 1e999999999 has a billion digits.
func checkNumber(number string) error {
	if len(number) > 64 {
		return errors.New("a number has more than 64 characters")
	}
	_, exponent, ok := strings.Cut(strings.ToLower(number), "e")
	if n, err := strconv.Atoi(exponent); ok && (err != nil || n > 308 || n < -308) {
		return errors.New("a number has an exponent beyond 308")
	}
	return nil
}

// visitSchemaKey rejects references, and returns false for keys of a schema that are annotations, not rules.
func visitSchemaKey(key string) (bool, error) {
	switch key {
	case "$ref", "$dynamicRef", "$recursiveRef", "$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary":
		return false, fmt.Errorf("%s is not available: write the rules where they apply", key)
	case "title", "description", "$comment", "examples", "default":
		return false, nil
	}
	return true, nil
}

func visitAnyKey(string) (bool, error) { return true, nil }

// patternMatcher compiles the patterns of a schema, and bounds their cost.
type patternMatcher struct {
	left int // see maxMatch
}

type pattern struct {
	*regexp.Regexp
	matcher *patternMatcher
	steps   int // per byte of a text, at most
}

func (m *patternMatcher) compile(text string) (jsonschema.Regexp, error) {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	if len(program.Inst) > maxPattern {
		return nil, fmt.Errorf("the pattern takes %d steps for each character, at most %d are allowed", len(program.Inst), maxPattern)
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	return pattern{Regexp: compiled, matcher: m, steps: len(program.Inst)}, nil
}

// MatchString matches nothing once the budget is spent; Validate then rejects the document.
func (p pattern) MatchString(text string) bool {
	if p.matcher.left -= p.steps * (len(text) + 1); p.matcher.left < 0 {
		return false
	}
	return p.Regexp.MatchString(text)
}
