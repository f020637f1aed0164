package render

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"
)

// budget is the remaining work of a rendering.
type budget struct{ steps, bytes int }

var (
	errTooLarge = fmt.Errorf("the text grows beyond %d bytes", maxData)

	errSteps = fmt.Errorf("the templates take more than %d steps together: make loops shorter", maxSteps)
	errWork  = fmt.Errorf("functions read and produce more than %d bytes for all templates together", maxWork)
)

func (b *budget) step(n int) error {
	if b.steps -= n; b.steps < 0 {
		return errSteps
	}
	return nil
}

func (b *budget) work(n int) error {
	if b.bytes -= n; b.bytes < 0 {
		return errWork
	}
	return nil
}

// values is .Values.
type values struct {
	all   map[string]Value
	names []string // sorted
}

func newValues(all map[string]Value) *values {
	return &values{all: all, names: slices.Sorted(maps.Keys(all))}
}

// get returns the text of a value, or missingValue.
func (v *values) get(name string) any {
	if value, ok := v.all[name]; ok {
		return value.Text
	}
	return missingValue{name}
}

func (v *values) texts() map[string]string {
	texts := make(map[string]string, len(v.all))
	for name, value := range v.all {
		texts[name] = value.Text
	}
	return texts
}

func (v *values) size() int {
	n := 0
	for name, value := range v.all {
		n += len(name) + len(value.Text)
	}
	return n
}

// missingValue is a value that does not exist. Only default and required accept it.
type missingValue struct{ name string }

func (m missingValue) fault() error {
	return fmt.Errorf("the value %q is missing: set it, or give it a default: {{ .Values.x | default \"...\" }}", m.name)
}

// toText returns v as it appears in the output.
func toText(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int:
		return strconv.Itoa(v), nil
	case missingValue:
		return "", v.fault()
	default:
		return "", errors.New(".Values is not text: name one value, or use toJson")
	}
}

// isTrue returns v as a condition: texts and .Values are true unless empty, numbers unless 0.
func isTrue(v any) (bool, error) {
	switch v := v.(type) {
	case string:
		return v != "", nil
	case bool:
		return v, nil
	case int:
		return v != 0, nil
	case *values:
		return len(v.all) > 0, nil
	default:
		_, err := toText(v)
		return false, err
	}
}

type variable struct {
	name  string
	value any
}

// evaluator renders one checked template.
type evaluator struct {
	in        *Input
	values    *values
	budget    *budget
	bytesLeft int // bytes that the output may still have
	out       strings.Builder
	dot       any // inside with and range
	vars      []variable
}

// at adds the position of n to err, unless err has one.
func at(n parse.Node, err error) error {
	if _, ok := errors.AsType[*templateError](err); err == nil || ok {
		return err
	}
	return &templateError{at: n.Position(), text: err.Error(), tooLarge: errors.Is(err, errTooLarge)}
}

func (e *evaluator) list(l *parse.ListNode) error {
	if l == nil {
		return nil
	}
	for _, n := range l.Nodes {
		if err := e.node(n); err != nil {
			return at(n, err)
		}
	}
	return nil
}

func (e *evaluator) node(n parse.Node) error {
	if err := e.budget.step(1); err != nil {
		return err
	}
	switch n := n.(type) {
	case *parse.TextNode:
		return e.write(string(n.Text))
	case *parse.ActionNode:
		return e.action(n.Pipe)
	case *parse.IfNode:
		return e.branch(&n.BranchNode, false)
	case *parse.WithNode:
		return e.branch(&n.BranchNode, true)
	case *parse.RangeNode:
		return e.loop(n)
	default:
		return notAvailable(n)
	}
}

// notAvailable is the error for nodes that check rejects.
func notAvailable(n parse.Node) error { return fmt.Errorf("%s is not available", n) }

func (e *evaluator) write(s string) error {
	if e.bytesLeft -= len(s); e.bytesLeft < 0 {
		return errTooLarge
	}
	e.out.WriteString(s)
	return nil
}

func (e *evaluator) action(p *parse.PipeNode) error {
	v, err := e.pipe(p)
	if err != nil || len(p.Decl) > 0 {
		return err
	}
	s, err := toText(v)
	if err != nil {
		return at(p, err)
	}
	return e.write(s)
}

// branch renders an if, or a with, which changes dot.
func (e *evaluator) branch(n *parse.BranchNode, with bool) error {
	defer e.restore(e.dot, len(e.vars))
	v, err := e.pipe(n.Pipe)
	if err != nil {
		return err
	}
	is, err := isTrue(v)
	switch {
	case err != nil:
		return at(n.Pipe, err)
	case !is:
		return e.list(n.ElseList)
	case with:
		e.dot = v
	}
	return e.list(n.List)
}

func (e *evaluator) restore(dot any, vars int) { e.dot, e.vars = dot, e.vars[:vars] }

func (e *evaluator) loop(n *parse.RangeNode) error {
	if len(e.values.names) == 0 {
		return e.list(n.ElseList)
	}
	for _, name := range e.values.names {
		if err := e.iteration(n, name); err != nil {
			return err
		}
	}
	return nil
}

// iteration renders the body of a loop over values for one value.
func (e *evaluator) iteration(n *parse.RangeNode, name string) error {
	defer e.restore(e.dot, len(e.vars))
	e.dot = e.values.get(name)
	switch decl := n.Pipe.Decl; len(decl) {
	case 1:
		e.vars = append(e.vars, variable{decl[0].Ident[0], e.dot})
	case 2:
		e.vars = append(e.vars, variable{decl[0].Ident[0], name}, variable{decl[1].Ident[0], e.dot})
	}
	if err := e.budget.step(1); err != nil {
		return err
	}
	return e.list(n.List)
}
