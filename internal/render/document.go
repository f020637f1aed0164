package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// CheckFormats parses the files of out whose name ends in .json, .yaml, .yml or .properties. Keys must not occur twice in a YAML mapping or
// in properties. Its error is an *Error. For a file in out.Secret the error names only the line.
func CheckFormats(out Output) error {
	var found faults
	for _, name := range out.Files {
		text, secret := out.text(name)
		if err := checkFormat(name, text); err != nil {
			found = append(found, err.fault("files["+name+"]", secret))
		}
	}
	return found.err(0)
}

// text returns the rendered text of a key, and whether it is secret.
func (o Output) text(key string) (string, bool) {
	if text, secret := o.Secret[key]; secret {
		return text, true
	}
	return o.Data[key], false
}

// format is the language of a file, by its extension: json, yaml, properties or another.
func format(name string) string {
	end := strings.TrimPrefix(strings.ToLower(path.Ext(name)), ".")
	if end == "yml" {
		return "yaml"
	}
	return end
}

// formatError describes an invalid document.
type formatError struct {
	format        string
	line          int // 0 if unknown
	text          string
	quotesNothing bool // text quotes nothing of the document
}

// fault hides the document's contents if they are secret.
func (f *formatError) fault(key string, secret bool) Fault {
	problem := "not valid " + f.format
	if f.quotesNothing || !secret {
		problem += ": " + f.text
	}
	return Fault{Key: key, Line: f.line, Problem: truncate(problem)}
}

func checkFormat(name, text string) *formatError {
	switch format(name) {
	case "json":
		return checkJSON(text)
	case "yaml":
		_, flaw := parseYAML(text)
		return flaw
	case "properties":
		return checkProperties(text)
	default:
		return nil
	}
}

func checkJSON(text string) *formatError {
	err := json.Unmarshal([]byte(text), new(json.RawMessage)) // allocates no memory for the contents
	if err == nil {
		return nil
	}
	f := &formatError{format: "JSON", text: err.Error()}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		f.line = strings.Count(text[:min(int(syntax.Offset), len(text))], "\n") + 1
	}
	return f
}

// document returns the only document of a JSON or YAML file in the form of encoding/json, with json.Number for numbers.
func document(name, text string, room int) (any, *formatError) {
	switch format(name) {
	case "json":
		if f := checkJSON(text); f != nil {
			return nil, f
		}
		return decodeJSON(text)
	case "yaml":
		docs, f := parseYAML(text)
		switch {
		case f != nil:
			return nil, f
		case len(docs) != 1:
			return nil, &formatError{format: "for a schema", text: fmt.Sprintf("the file holds %d documents, a schema is for one", len(docs)), quotesNothing: true}
		}
		return expandYAML(docs[0], room)
	default:
		return nil, &formatError{format: "for a schema", text: "its name must end in .json, .yaml or .yml", quotesNothing: true}
	}
}

func decodeJSON(text string) (any, *formatError) {
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return nil, &formatError{format: "JSON", text: err.Error()}
	}
	return v, nil
}

var unicodeEscape = regexp.MustCompile(`^[0-9a-fA-F]{4}`)

// checkProperties checks that text is a Java properties file: keys, each once, with complete escapes.
func checkProperties(text string) *formatError {
	seen := map[string]bool{}
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		first := i + 1
		line := strings.TrimLeft(lines[i], " \t\f")
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		var logical strings.Builder
		for continued(line) && i+1 < len(lines) {
			logical.WriteString(strings.TrimSuffix(line, `\`))
			i++
			line = strings.TrimLeft(lines[i], " \t\f")
		}
		logical.WriteString(line)
		key, problem := property(logical.String())
		switch {
		case problem != "":
			return &formatError{format: "properties", line: first, text: problem}
		case seen[key]:
			return &formatError{format: "properties", line: first, text: "the key " + strconv.Quote(key) + " occurs twice"}
		}
		seen[key] = true
	}
	return nil
}

// continued reports whether the next line belongs to this one: it ends in an odd number of backslashes.
func continued(line string) bool {
	return (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1
}

// property returns the key of a line, as written, or the problem of the line.
func property(line string) (key, problem string) {
	end := len(line)
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '\\':
			if i++; i < len(line) && line[i] == 'u' && !unicodeEscape.MatchString(line[i+1:]) {
				return "", `\u needs four hexadecimal digits`
			}
		case end == len(line) && slices.Contains([]byte("=: \t\f"), line[i]):
			end = i
		}
	}
	if end == 0 {
		return "", "a line has no key"
	}
	return line[:end], ""
}
