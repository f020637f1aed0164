package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong with a configuration.
type Fault struct {
	// Key says where: "config.DB_URL", "files[app.yaml]", "schema.config", "schema.files[app.yaml]"; empty for the whole.
	Key string
	// Line and Column are the place in the template, or in a rendered file, from 1; 0 if not known. Columns are in bytes.
	Line, Column int
	// Problem says what is wrong and what to do. It never holds the text of a secret value.
	Problem string
	// TooLarge is true if the result exceeds MaxData.
	TooLarge bool
}

func (f Fault) String() string {
	where := f.Key
	switch {
	case f.Line > 0 && f.Column > 0:
		where += fmt.Sprintf(" line %d column %d", f.Line, f.Column)
	case f.Line > 0:
		where += fmt.Sprintf(" line %d", f.Line)
	}
	if where = strings.TrimSpace(where); where == "" {
		return f.Problem
	}
	return where + ": " + f.Problem
}

// Error is what the functions of this package return: the faults they found, ordered by key and place.
type Error struct {
	// Faults are at most MaxFaults, at least one.
	Faults []Fault
	// More is how many others were found.
	More int
}

func (e *Error) Error() string {
	texts := make([]string, 0, len(e.Faults)+1)
	for _, f := range e.Faults {
		texts = append(texts, f.String())
	}
	if e.More > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", e.More))
	}
	return strings.Join(texts, "; ")
}

// faults collects what is wrong.
type faults []Fault

func (f *faults) add(key, format string, args ...any) {
	*f = append(*f, Fault{Key: key, Problem: truncate(fmt.Sprintf(format, args...))})
}

// err returns what was collected as an *Error, or nil; more is how many faults were found beside these.
func (f faults) err(more int) error {
	if len(f) == 0 {
		return nil
	}
	slices.SortStableFunc(f, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Problem, b.Problem))
	})
	n := min(len(f), MaxFaults)
	return &Error{Faults: f[:n], More: len(f) - n + more}
}
