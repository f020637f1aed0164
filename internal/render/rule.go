package render

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// brokenRules appends the broken rules to found. The parts of a choice (anyOf, oneOf, not) are not separate rules.
func brokenRules(e *jsonschema.ValidationError, found []*jsonschema.ValidationError) []*jsonschema.ValidationError {
	switch e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.AllOf:
		for _, cause := range e.Causes {
			found = brokenRules(cause, found)
		}
		return found
	default:
		return append(found, e)
	}
}

// schemaError describes an invalid schema in one line.
func schemaError(err error) error {
	if of, is := errors.AsType[*jsonschema.SchemaValidationError](err); is {
		err = of.Err
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return errors.New(strings.ReplaceAll(err.Error(), schemaURL, ""))
	}
	for len(invalid.Causes) > 0 { // report only the first cause
		invalid = slices.MinFunc(invalid.Causes, func(a, b *jsonschema.ValidationError) int {
			return cmp.Or(slices.Compare(a.InstanceLocation, b.InstanceLocation), cmp.Compare(a.SchemaURL, b.SchemaURL))
		})
	}
	problem := invalid.ErrorKind.LocalizedString(message.NewPrinter(language.English))
	if format, is := invalid.ErrorKind.(*kind.Format); is { // a long pattern would leave no room for the reason
		problem = "not a valid " + format.Want + ": " + format.Err.Error()
	}
	return fmt.Errorf("not a JSON Schema: /%s: %s", strings.Join(invalid.InstanceLocation, "/"), problem)
}

// ruleFault names the broken rule and its place. It quotes the value unless the value is secret.
func ruleFault(where string, rule *jsonschema.ValidationError, secret bool) Fault {
	path := rule.InstanceLocation
	quotable := !secret
	if where == "config" {
		if len(path) > 0 {
			where, path = "config."+path[0], path[1:]
		} else {
			quotable = namesOnly(rule.ErrorKind)
		}
	}
	name := ruleName(rule)
	if !quotable {
		return Fault{Key: where, Problem: truncate("breaks the rule " + name + " of its schema")}
	}
	if additional, ok := rule.ErrorKind.(*kind.AdditionalProperties); ok {
		slices.Sort(additional.Properties)
	}
	problem := rule.ErrorKind.LocalizedString(message.NewPrinter(language.English))
	if len(path) > 0 {
		problem = "/" + strings.Join(path, "/") + ": " + problem
	}
	return Fault{Key: where, Problem: truncate(fmt.Sprintf("%s (rule %s of its schema)", problem, name))}
}

// namesOnly reports whether the error of a rule about all keys contains only their names and number.
func namesOnly(k jsonschema.ErrorKind) bool {
	switch k.(type) {
	case *kind.Required, *kind.AdditionalProperties, *kind.PropertyNames, *kind.MinProperties, *kind.MaxProperties,
		*kind.Dependency, *kind.DependentRequired:
		return true
	default:
		return false
	}
}

// ruleName is the position of a rule in its schema, as a JSON pointer.
func ruleName(rule *jsonschema.ValidationError) string {
	_, pointer, _ := strings.Cut(rule.SchemaURL, "#")
	if plain, err := url.PathUnescape(pointer); err == nil {
		pointer = plain
	}
	for _, keyword := range rule.ErrorKind.KeywordPath() {
		if keyword = "/" + keyword; keyword != "/propertyNames" || !strings.HasSuffix(pointer, keyword) {
			pointer += keyword
		}
	}
	if _, not := rule.ErrorKind.(*kind.Not); not {
		pointer += "/not"
	}
	return cmp.Or(pointer, "/")
}
