package render

import (
	"fmt"
	"slices"
	"strings"
	"text/template/parse"
)

// visibleValues says which values a template can see: directly, in a condition, or through something else.
type visibleValues struct {
	all   bool
	names map[string]bool
}

// secret reports whether one of the values that r holds is secret.
func (r visibleValues) secret(values map[string]Value) bool {
	for name, v := range values {
		if v.Secret && (r.all || r.names[name]) {
			return true
		}
	}
	return false
}

// checkedTemplate is a template that holds nothing but what is allowed, and what it can see.
type checkedTemplate struct {
	root  *parse.ListNode
	reach visibleValues
}

// check parses text and refuses what is not in the subset. Its errors are *problem.
func check(text string) (checkedTemplate, error) {
	if len(text) > MaxTemplate {
		return checkedTemplate{}, &templateError{text: fmt.Sprintf("the template has %d bytes, at most %d are allowed", len(text), MaxTemplate)}
	}
	tree := parse.New(treeName)
	tree.Mode = parse.SkipFuncCheck // functions are judged below, with a better message
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

// checker walks over a template. Its methods refuse every node that they don't know.
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

// branch checks an if, with or range; rooted and loop hold for its body. In its else, all is as outside.
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

// isValues says whether p is .Values or $.Values, and nothing else.
func isValues(p *parse.PipeNode) bool {
	if len(p.Cmds) != 1 || len(p.Cmds[0].Args) != 1 {
		return false
	}
	path, ok := fieldPath(p.Cmds[0].Args[0])
	return ok && slices.Equal(path, []string{"Values"})
}

// fieldPath returns the fields that n names from the whole context: .Values.x and $.Values.x are [Values x].
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

// pipe checks a pipeline, which every block and every parenthesis has, so that it is the place to bound their depth.
func (c *checker) pipe(p *parse.PipeNode, depth int) error {
	if depth > MaxDepth {
		return errorAt(p, "the template nests deeper than %d", MaxDepth)
	}
	for i, cmd := range p.Cmds {
		if err := c.command(cmd, i > 0, depth); err != nil {
			return err
		}
	}
	return nil
}

// command checks one stage of a pipeline; piped stages get one argument more.
func (c *checker) command(cmd *parse.CommandNode, piped bool, depth int) error {
	name, ok := cmd.Args[0].(*parse.IdentifierNode)
	if !ok {
		if piped || len(cmd.Args) > 1 {
			return errorAt(cmd, "%s is no function and takes no argument", cmd.Args[0])
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

// index checks index .Values "name". The name is a constant: one that a value gives would be shown when it is missing.
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

// canNameField says whether fields can be named from n: inside with and range, only those of $.
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
			return errorAt(n, "the whole context is no value: name one of its fields, like .Values.x")
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

// field checks .x, .Values.x, $.Values.x and $x, and notes which values they see.
func (c *checker) field(n parse.Node) error {
	path, ok := fieldPath(n)
	if !ok {
		if v, is := n.(*parse.VariableNode); is && len(v.Ident) == 1 {
			return nil // what it holds was seen when it was set
		}
		return errorAt(n, "%s: a variable holds a text, which has no fields", n)
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

// checkPath says whether there is such a field.
func checkPath(n parse.Node, path []string) error {
	switch {
	case len(path) == 0:
		return errorAt(n, "the whole context is no value: name one of its fields, like $.Values.x")
	case path[0] == "Values" && len(path) <= 2:
		return nil
	case path[0] != "Values" && !slices.Contains(contextFields, path[0]):
		return errorAt(n, "there is no .%s: there are .%s and .Values", path[0], strings.Join(contextFields, ", ."))
	case len(path) > 1:
		return errorAt(n, "%s: values are texts, which have no fields; for a name with a dot write index .Values \"a.b\"", n)
	}
	return nil
}

// contextFields are the fields of the whole context beside Values.
var contextFields = []string{"Application", "Environment", "Namespace", "Name"}
