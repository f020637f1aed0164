package render

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"
)

const (
	// maxIndent is the maximum width of indent and nindent.
	maxIndent = 100
	// variadic is the maximum number of arguments of a variadic function.
	variadic = 100
)

// function is a template function. Arguments are string, bool, int, *values or missingValue.
type function struct {
	min, max int // number of arguments, including the piped one
	call     func(b *budget, args []any) (any, error)
}

// functions are all available functions. The evaluator itself calls "and" and "or", which evaluate an argument only if necessary.
var functions = map[string]function{
	"and":      {1, variadic, nil},
	"or":       {1, variadic, nil},
	"not":      {1, 1, not},
	"eq":       {2, variadic, equal},
	"ne":       {2, 2, notEqual},
	"len":      {1, 1, length},
	"index":    {2, 2, index},
	"default":  {2, 2, defaultValue},
	"required": {2, 2, required},
	"upper":    {1, 1, textFunction(strings.ToUpper)},
	"lower":    {1, 1, textFunction(strings.ToLower)},
	"trim":     {1, 1, textFunction(strings.TrimSpace)},
	"quote":    {1, 1, textFunction(func(s string) string { return asJSON(s) })},
	"b64enc":   {1, 1, textFunction(func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) })},
	"toJson":   {1, 1, toJSON},
	"indent":   {2, 2, func(b *budget, args []any) (any, error) { return indentLines(b, args, "") }},
	"nindent":  {2, 2, func(b *budget, args []any) (any, error) { return indentLines(b, args, "\n") }},
}

// checkCall checks a call as far as possible without values.
func checkCall(name *parse.IdentifierNode, args []parse.Node, piped bool) error {
	f, ok := functions[name.Ident]
	if !ok {
		return errorAt(name, "there is no function %s: there are %s", name, strings.Join(slices.Sorted(maps.Keys(functions)), ", "))
	}
	n := len(args)
	if piped {
		n++
	}
	switch {
	case n < f.min || f.max != variadic && n > f.max:
		return errorAt(name, "%s takes %s, not %d", name, f.arity(), n)
	case n > f.max:
		return errorAt(name, "%s takes at most %d arguments", name, f.max)
	case len(args) == 0:
		return checkFirst(name, nil)
	default:
		return checkFirst(name, args[0])
	}
}

// checkFirst checks the first argument of a call if it must be a constant; it is nil if the only argument is piped.
func checkFirst(name *parse.IdentifierNode, first parse.Node) error {
	switch name.Ident {
	case "required": // the message is shown, so it must not be a value
		if _, ok := first.(*parse.StringNode); !ok {
			return errorAt(name, "the first argument of required is a text in quotes")
		}
	case "indent", "nindent":
		number, ok := first.(*parse.NumberNode)
		if !ok || !number.IsInt || number.Int64 < 0 || number.Int64 > maxIndent {
			return errorAt(name, "the first argument of %s is a number from 0 to %d", name, maxIndent)
		}
	}
	return nil
}

func (f function) arity() string {
	count := strconv.Itoa(f.min) + " argument"
	if f.min > 1 {
		count += "s"
	}
	if f.max > f.min {
		return "at least " + count
	}
	return count
}

// textFunction makes a template function from a function of one text.
func textFunction(f func(string) string) func(*budget, []any) (any, error) {
	return func(b *budget, args []any) (any, error) {
		s, err := toText(args[0])
		if err != nil {
			return nil, err
		}
		if err := b.work(len(s)); err != nil {
			return nil, err
		}
		s = f(s)
		return s, b.work(len(s))
	}
}

func not(_ *budget, args []any) (any, error) {
	is, err := isTrue(args[0])
	return !is, err
}

// equal reports whether the first argument equals one of the others.
func equal(b *budget, args []any) (any, error) {
	for _, other := range args[1:] {
		if err := checkComparable(args[0], other); err != nil {
			return nil, err
		}
		if s, ok := other.(string); ok {
			if err := b.work(len(s)); err != nil {
				return nil, err
			}
		}
		if args[0] == other {
			return true, nil
		}
	}
	return false, nil
}

func notEqual(b *budget, args []any) (any, error) {
	same, err := equal(b, args)
	return same == false, err
}

// checkComparable returns an error unless both are texts, both numbers or both booleans.
func checkComparable(a, b any) error {
	for _, v := range []any{a, b} {
		if _, err := toText(v); err != nil {
			return err
		}
	}
	if typeName(a) != typeName(b) {
		return fmt.Errorf("a %s can't be compared with a %s", typeName(a), typeName(b))
	}
	return nil
}

func typeName(v any) string {
	switch v.(type) {
	case string:
		return "text"
	case int:
		return "number"
	default:
		return "boolean"
	}
}

func length(_ *budget, args []any) (any, error) {
	switch v := args[0].(type) {
	case *values:
		return len(v.all), nil
	case string:
		return len(v), nil
	case missingValue:
		return nil, v.fault()
	default:
		return nil, fmt.Errorf("a %s has no length", typeName(v))
	}
}

func index(_ *budget, args []any) (any, error) {
	all, _ := args[0].(*values) // check has verified both types
	name, _ := args[1].(string)
	return all.get(name), nil
}

func defaultValue(_ *budget, args []any) (any, error) {
	if _, is := args[1].(missingValue); is {
		return args[0], nil
	}
	if is, err := isTrue(args[1]); err != nil || is {
		return args[1], err
	}
	return args[0], nil
}

func required(_ *budget, args []any) (any, error) {
	message, _ := args[0].(string) // checkCall has verified the type
	if _, is := args[1].(missingValue); is || args[1] == "" {
		return nil, errors.New(message)
	}
	return args[1], nil
}

func toJSON(b *budget, args []any) (any, error) {
	if m, is := args[0].(missingValue); is {
		return nil, m.fault()
	}
	document := args[0]
	if v, is := document.(*values); is {
		if err := b.work(v.size()); err != nil {
			return nil, err
		}
		document = v.texts()
	} else if s, is := document.(string); is {
		if err := b.work(len(s)); err != nil {
			return nil, err
		}
	}
	s := asJSON(document)
	return s, b.work(len(s))
}

// asJSON returns v as JSON on one line, with sorted keys and without HTML escapes.
func asJSON(v any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(err) // texts, numbers, booleans and maps of texts always encode
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// indentLines puts spaces before each line; the first argument is their number.
func indentLines(b *budget, args []any, before string) (any, error) {
	s, err := toText(args[1])
	if err != nil {
		return nil, err
	}
	width, _ := args[0].(int) // checkCall has verified the type
	lines := strings.Count(s, "\n") + 1
	if err := b.work(2*len(s) + lines*width + len(before)); err != nil {
		return nil, err
	}
	pad := strings.Repeat(" ", width)
	return before + pad + strings.ReplaceAll(s, "\n", "\n"+pad), nil
}
