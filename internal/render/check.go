package render

import (
	"fmt"
	"slices"
	"strings"
	"text/template/parse"
)

// visibleValues is the set of values that a template can see: directly, in a condition, or through another value.
type visibleValues struct {
	all   bool
	names map[string]bool
}

// secret reports whether one of the visible values is secret.
func (r visibleValues) secret(values map[string]Value) bool {
	for name, v := range values {
		if v.Secret && (r.all || r.names[name]) {
			return true
		}
	}
	return false
}

// checkedTemplate is a template of the allowed subset, and the values that it can see.
type checkedTemplate struct {
	root  *parse.ListNode
	reach visibleValues
}

// check parses text and rejects templates outside the subset. Its errors are *templateError.
func check(text string) (checkedTemplate, error) {
	if len(text) > maxTemplate {
		return checkedTemplate{}, &templateError{text: fmt.Sprintf("the template has %d bytes, at most %d are allowed", len(text), maxTemplate)}
	}
	tree := parse.New(treeName)
	tree.Mode = parse.SkipFuncCheck // functions are checked below, with a better message
	set := map[string]*parse.Tree{}
	if _, err := tree.Parse(text, "", "", set); err != nil {
		return checkedTemplate{}, parseError(err)
	}
	if len(set) != 1 || set[treeName] != tree {
		return checkedTemplate{}, &templateError{text: "define and block are not available"}
	}
	c := checker{atRoot: true, reach: visibleValues{names: map[string]bool{}}}
	if err := c.list(tree.Root, 0); err != nil {
		return checkedTemplate{}, err
	}
	return checkedTemplate{root: tree.Root, reach: c.reach}, nil
}

// checker walks a template. Its methods reject every unknown node.
type checker struct {
	atRoot bool // dot is the whole context, not the value of a with or range
	loop   bool // inside a range
	reach  visibleValues
}

func (c *checker) list(l *parse.ListNode, depth int) error {
	if l == nil {
		return nil
	}
	for _, n := range l.Nodes {
		if err := c.node(n, depth); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) node(n parse.Node, depth int) error {
	switch n := n.(type) {
	case *parse.TextNode:
		return nil
	case *parse.ActionNode:
		return c.pipe(n.Pipe, depth)
	case *parse.IfNode:
		return c.branch(&n.BranchNode, depth, c.atRoot, c.loop)
	case *parse.WithNode:
		return c.branch(&n.BranchNode, depth, false, c.loop)
	case *parse.RangeNode:
		return c.rangeNode(n, depth)
	case *parse.TemplateNode:
		return errorAt(n, "template is not available")
	case *parse.BreakNode, *parse.ContinueNode:
		return errorAt(n, "break and continue are not available")
	default:
		return errorAt(n, "%s is not available", n)
	}
}

// branch checks an if, with or range. rooted and loop apply to its body, but not to its else.
func (c *checker) branch(n *parse.BranchNode, depth int, rooted, loop bool) error {
	if err := c.pipe(n.Pipe, depth); err != nil {
		return err
	}
	outerRooted, outerLoop := c.atRoot, c.loop
	c.atRoot, c.loop = rooted, loop
	err := c.list(n.List, depth+1)
	c.atRoot, c.loop = outerRooted, outerLoop
	if err != nil {
		return err
	}
	return c.list(n.ElseList, depth+1)
}

func (c *checker) rangeNode(n *parse.RangeNode, depth int) error {
	switch {
	case c.loop:
		return errorAt(n, "a range inside a range is not available")
	case !isValues(n.Pipe):
		return errorAt(n.Pipe, "range goes over .Values (or $.Values) only")
	case n.Pipe.IsAssign:
		return errorAt(n.Pipe, "declare the variables of a range with :=")
	}
	return c.branch(&n.BranchNode, depth, false, true)
}

// isValues reports whether p is exactly .Values or $.Values.
func isValues(p *parse.PipeNode) bool {
	if len(p.Cmds) != 1 || len(p.Cmds[0].Args) != 1 {
		return false
	}
	path, ok := fieldPath(p.Cmds[0].Args[0])
	return ok && slices.Equal(path, []string{"Values"})
}

// fieldPath returns the fields that n names in the whole context: .Values.x and $.Values.x are [Values x].
func fieldPath(n parse.Node) ([]string, bool) {
	switch n := n.(type) {
	case *parse.FieldNode:
		return n.Ident, true
	case *parse.VariableNode:
		if n.Ident[0] == "$" {
			return n.Ident[1:], true
		}
	}
	return nil, false
}

// pipe checks a pipeline. Every block and every parenthesis has one, so the depth is checked here.
func (c *checker) pipe(p *parse.PipeNode, depth int) error {
	if depth > maxDepth {
		return errorAt(p, "the template nests deeper than %d", maxDepth)
	}
	for i, cmd := range p.Cmds {
		if err := c.command(cmd, i > 0, depth); err != nil {
			return err
		}
	}
	return nil
}

// command checks one stage of a pipeline. A piped stage gets one more argument.
func (c *checker) command(cmd *parse.CommandNode, piped bool, depth int) error {
	name, ok := cmd.Args[0].(*parse.IdentifierNode)
	if !ok {
		if piped || len(cmd.Args) > 1 {
			return errorAt(cmd, "%s is not a function and takes no argument", cmd.Args[0])
		}
		return c.operand(cmd.Args[0], depth)
	}
	args := cmd.Args[1:]
	if err := checkCall(name, args, piped); err != nil {
		return err
	}
	if name.Ident == "index" {
		return c.index(name, args)
	}
	for _, arg := range args {
		if err := c.operand(arg, depth); err != nil {
			return err
		}
	}
	return nil
}

// index checks index .Values "name". The name must be a constant: the error for a missing value shows the name, so it must not come from a
// value.
func (c *checker) index(name *parse.IdentifierNode, args []parse.Node) error {
	if len(args) != 2 {
		return errorAt(name, "index is called as index .Values \"name\"")
	}
	path, ok := fieldPath(args[0])
	key, constant := args[1].(*parse.StringNode)
	if !ok || !constant || !slices.Equal(path, []string{"Values"}) {
		return errorAt(name, "index is called as index .Values \"name\"")
	}
	if !c.canNameField(args[0]) {
		return errorAt(args[0], "inside with and range, write $%s", args[0])
	}
	c.reach.names[key.Text] = true
	return nil
}

// canNameField reports whether n may name a field: inside with and range, only $ may.
func (c *checker) canNameField(n parse.Node) bool {
	return c.atRoot || n.Type() == parse.NodeVariable
}

func (c *checker) operand(n parse.Node, depth int) error {
	switch n := n.(type) {
	case *parse.StringNode, *parse.BoolNode:
		return nil
	case *parse.NumberNode:
		if !n.IsInt || strings.HasPrefix(n.Text, "'") {
			return errorAt(n, "write %s as a string: only whole numbers are available", n)
		}
		return nil
	case *parse.DotNode:
		if c.atRoot {
			return errorAt(n, "the whole context is not a value: name one of its fields, like .Values.x")
		}
		return nil
	case *parse.FieldNode, *parse.VariableNode:
		return c.field(n)
	case *parse.PipeNode:
		if len(n.Decl) > 0 {
			return errorAt(n, "a variable can't be declared inside parentheses")
		}
		return c.pipe(n, depth+1)
	case *parse.IdentifierNode:
		return errorAt(n, "put the call of %s into parentheses", n)
	default:
		return errorAt(n, "%s is not available", n)
	}
}

// field checks .x, .Values.x, $.Values.x and $x, and records which values they see.
func (c *checker) field(n parse.Node) error {
	path, ok := fieldPath(n)
	if !ok {
		if v, is := n.(*parse.VariableNode); is && len(v.Ident) == 1 {
			return nil // the values were recorded when the variable was set
		}
		return errorAt(n, "%s: a variable holds text, which has no fields", n)
	}
	if !c.canNameField(n) {
		return errorAt(n, "inside with and range, write $%s", n)
	}
	if err := checkPath(n, path); err != nil || path[0] != "Values" {
		return err
	}
	if len(path) == 1 {
		c.reach.all = true
	} else {
		c.reach.names[path[1]] = true
	}
	return nil
}

// checkPath reports whether the field exists.
func checkPath(n parse.Node, path []string) error {
	switch {
	case len(path) == 0:
		return errorAt(n, "the whole context is not a value: name one of its fields, like $.Values.x")
	case path[0] == "Values" && len(path) <= 2:
		return nil
	case path[0] != "Values" && !slices.Contains(contextFields, path[0]):
		return errorAt(n, "there is no .%s: there are .%s and .Values", path[0], strings.Join(contextFields, ", ."))
	case len(path) > 1:
		return errorAt(n, "%s: values are texts, which have no fields; for a name with a dot write index .Values \"a.b\"", n)
	}
	return nil
}

// contextFields are the fields of the whole context besides Values.
var contextFields = []string{"Application", "Environment", "Namespace", "Name"}
