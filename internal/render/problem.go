package render

import (
	"fmt"
	"strconv"
	"strings"
	"text/template/parse"
	"unicode/utf8"
)

// templateError is an error in a template.
type templateError struct {
	at   parse.Pos // position, as an offset in bytes
	line int       // position, if only the line is known
	text string
	// tooLarge is true if the rendered text exceeds maxData.
	tooLarge bool
}

func (p *templateError) Error() string { return p.text }

func errorAt(n parse.Node, format string, args ...any) error {
	return &templateError{at: n.Position(), text: fmt.Sprintf(format, args...)}
}

// treeName is the parser's name of each template in its errors.
const treeName = "t"

// parseError extracts the line from an error of the parser, "template: t:3: unexpected ...".
func parseError(err error) error {
	text := strings.TrimPrefix(err.Error(), "template: "+treeName+":")
	line, rest, ok := strings.Cut(text, ": ")
	number, bad := strconv.Atoi(line)
	if !ok || bad != nil {
		return &templateError{text: text}
	}
	return &templateError{line: number, text: rest}
}

// fault adds the position in template.
func (p *templateError) fault(key, template string) Fault {
	f := Fault{Key: key, Line: p.line, Problem: truncate(p.text), TooLarge: p.tooLarge}
	if p.line == 0 {
		before := template[:min(int(p.at), len(template))]
		f.Line = strings.Count(before, "\n") + 1
		f.Column = len(before) - strings.LastIndex(before, "\n")
	}
	return f
}

// truncate shortens text to maxProblem bytes, between two characters.
func truncate(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= maxProblem {
		return text
	}
	const end = " ..."
	n := maxProblem - len(end)
	for !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + end
}
