package render

import (
	"slices"
	"text/template/parse"
)

// pipe evaluates a pipeline, and sets the variable that it declares or assigns.
func (e *evaluator) pipe(p *parse.PipeNode) (any, error) {
	var v any
	for i, cmd := range p.Cmds {
		var piped []any
		if i > 0 {
			piped = []any{v}
		}
		var err error
		if v, err = e.command(cmd, piped); err != nil {
			return nil, at(cmd, err)
		}
	}
	if len(p.Decl) > 0 {
		return v, at(p, e.set(p, v))
	}
	return v, nil
}

func (e *evaluator) set(p *parse.PipeNode, v any) error {
	if m, is := v.(missingValue); is {
		return m.fault()
	}
	name := p.Decl[0].Ident[0]
	if !p.IsAssign {
		e.vars = append(e.vars, variable{name, v})
		return nil
	}
	if i := e.find(name); i >= 0 {
		e.vars[i].value = v
	}
	return nil
}

// find returns the index of the innermost variable of that name, or -1.
func (e *evaluator) find(name string) int {
	for i, v := range slices.Backward(e.vars) {
		if v.name == name {
			return i
		}
	}
	return -1
}

// command evaluates one stage of a pipeline; piped holds the result of the previous stage.
func (e *evaluator) command(cmd *parse.CommandNode, piped []any) (any, error) {
	name, ok := cmd.Args[0].(*parse.IdentifierNode)
	if !ok {
		return e.operand(cmd.Args[0])
	}
	if name.Ident == "and" || name.Ident == "or" {
		return e.shortCircuit(name.Ident == "or", cmd.Args[1:], piped)
	}
	args := make([]any, 0, len(cmd.Args))
	for _, n := range cmd.Args[1:] {
		v, err := e.operand(n)
		if err != nil {
			return nil, at(n, err)
		}
		args = append(args, v)
	}
	return functions[name.Ident].call(e.budget, append(args, piped...))
}

// shortCircuit returns the first argument whose truth is want, without evaluating the following ones; else the last.
func (e *evaluator) shortCircuit(want bool, args []parse.Node, piped []any) (any, error) {
	var v any
	for _, n := range args {
		var err error
		if v, err = e.operand(n); err != nil {
			return nil, at(n, err)
		}
		if is, err := isTrue(v); err != nil || is == want {
			return v, at(n, err)
		}
	}
	if len(piped) > 0 {
		v = piped[0]
	}
	_, err := isTrue(v)
	return v, err
}

func (e *evaluator) operand(n parse.Node) (any, error) {
	if err := e.budget.step(1); err != nil {
		return nil, err
	}
	switch n := n.(type) {
	case *parse.StringNode:
		return n.Text, nil
	case *parse.BoolNode:
		return n.True, nil
	case *parse.NumberNode:
		return int(n.Int64), nil
	case *parse.DotNode:
		return e.dot, nil
	case *parse.FieldNode:
		return e.field(n.Ident)
	case *parse.VariableNode:
		if n.Ident[0] == "$" {
			return e.field(n.Ident[1:])
		}
		if i := e.find(n.Ident[0]); i >= 0 {
			return e.vars[i].value, nil
		}
		return nil, notAvailable(n)
	case *parse.PipeNode:
		return e.pipe(n)
	default:
		return nil, notAvailable(n)
	}
}

// field returns the value of the field at path.
func (e *evaluator) field(path []string) (any, error) {
	switch path[0] {
	case "Application":
		return e.in.Application, nil
	case "Environment":
		return e.in.Environment, nil
	case "Namespace":
		return e.in.Namespace, nil
	case "Name":
		return e.in.Name, nil
	}
	if len(path) == 1 {
		return e.values, nil
	}
	return e.values.get(path[1]), nil
}
