package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one error in a configuration.
type Fault struct {
	// Key is the place: "config.DB_URL", "files[app.yaml]", "schema.config", "schema.files[app.yaml]"; empty for the whole.
	Key string
	// Line and Column are the position in the template, or in a rendered file, from 1; 0 if unknown. Columns are in bytes.
	Line, Column int
	// Problem describes the error and the remedy. It never contains the text of a secret value.
	Problem string
	// TooLarge is true if the result exceeds maxData.
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

// Error holds the faults that a function of this package found, ordered by key and position.
type Error struct {
	// Faults has at least one and at most maxFaults entries.
	Faults []Fault
	// More is the number of further faults.
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

// faults collects faults.
type faults []Fault

func (f *faults) add(key, format string, args ...any) {
	*f = append(*f, Fault{Key: key, Problem: truncate(fmt.Sprintf(format, args...))})
}

// err returns the collected faults as an *Error, or nil. more is the number of faults found besides these.
func (f faults) err(more int) error {
	if len(f) == 0 {
		return nil
	}
	slices.SortStableFunc(f, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Problem, b.Problem))
	})
	n := min(len(f), maxFaults)
	return &Error{Faults: f[:n], More: len(f) - n + more}
}
