package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3" //nolint:depguard // its nodes let us bound what aliases expand to
)

var yamlLine = regexp.MustCompile(`line (\d+): `)

// parseYAML returns the documents of text. Aliases are not expanded.
func parseYAML(text string) ([]*yaml.Node, *formatError) {
	var docs []*yaml.Node
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var doc yaml.Node
		err := decoder.Decode(&doc)
		switch {
		case errors.Is(err, io.EOF):
			return docs, nil
		case err != nil:
			return nil, yamlError(err)
		}
		if f := checkNode(&doc, 0); f != nil {
			return nil, f
		}
		if docs = append(docs, &doc); len(docs) > maxDocuments {
			return nil, &formatError{format: "YAML", text: fmt.Sprintf("more than %d documents", maxDocuments), quotesNothing: true}
		}
	}
}

func yamlError(err error) *formatError {
	f := &formatError{format: "YAML", text: strings.TrimPrefix(err.Error(), "yaml: ")}
	if found := yamlLine.FindStringSubmatchIndex(f.text); found != nil {
		f.line, _ = strconv.Atoi(f.text[found[2]:found[3]]) // digits
		f.text = f.text[:found[0]] + f.text[found[1]:]
	}
	return f
}

const (
	// maxNesting is the maximum depth of a document.
	maxNesting = 100
	// maxDocuments is the maximum number of documents in a file.
	maxDocuments = 1000
)

// checkNode rejects documents that the parser accepts: duplicate keys, keys that are not scalars, and excessive depth.
func checkNode(n *yaml.Node, depth int) *formatError {
	if depth > maxNesting {
		return tooDeep(n)
	}
	if n.Kind == yaml.MappingNode {
		seen := make(map[string]bool, len(n.Content)/2)
		for i := 0; i < len(n.Content); i += 2 {
			key := n.Content[i]
			switch id := key.ShortTag() + " " + key.Value; {
			case key.Kind != yaml.ScalarNode:
				return nodeError(key, "a key is not text")
			case seen[id]:
				return nodeError(key, "the key %q occurs twice", key.Value)
			default:
				seen[id] = true
			}
		}
	}
	for _, child := range n.Content {
		if f := checkNode(child, depth+1); f != nil {
			return f
		}
	}
	return nil
}

func tooDeep(n *yaml.Node) *formatError {
	return &formatError{format: "YAML", line: n.Line, text: fmt.Sprintf("it nests deeper than %d", maxNesting), quotesNothing: true}
}

func nodeError(n *yaml.Node, text string, args ...any) *formatError {
	return &formatError{format: "YAML", line: n.Line, text: fmt.Sprintf(text, args...)}
}

// expandYAML returns a document in the form of encoding/json, with at most room nodes after the expansion of aliases.
func expandYAML(doc *yaml.Node, room int) (any, *formatError) {
	x := expander{nodesLeft: room}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	return x.value(doc.Content[0], 0)
}

type expander struct{ nodesLeft int }

func (x *expander) value(n *yaml.Node, depth int) (any, *formatError) {
	x.nodesLeft -= 1 + len(n.Value)/workUnit
	switch {
	case x.nodesLeft < 0:
		return nil, &formatError{format: "for a schema", line: n.Line, text: "too large after aliases are expanded", quotesNothing: true}
	case depth > maxNesting:
		return nil, tooDeep(n)
	}
	switch n.Kind {
	case yaml.AliasNode:
		return x.value(n.Alias, depth+1)
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, child := range n.Content {
			v, f := x.value(child, depth+1)
			if f != nil {
				return nil, f
			}
			list = append(list, v)
		}
		return list, nil
	case yaml.MappingNode:
		object := make(map[string]any, len(n.Content)/2)
		return object, x.fill(object, n, depth)
	default:
		return scalar(n)
	}
}

// fill sets the keys of a mapping, and those keys of merged mappings that the mapping does not set.
func (x *expander) fill(object map[string]any, n *yaml.Node, depth int) *formatError {
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, child := n.Content[i], n.Content[i+1]
		if key.ShortTag() == "!!merge" {
			merged = append(merged, child)
			continue
		}
		v, f := x.value(child, depth+1)
		if f != nil {
			return f
		}
		x.nodesLeft -= len(key.Value) / workUnit
		object[key.Value] = v
	}
	for _, from := range merged {
		if f := x.merge(object, from, depth+1); f != nil {
			return f
		}
	}
	return nil
}

func (x *expander) merge(object map[string]any, from *yaml.Node, depth int) *formatError {
	v, f := x.value(from, depth)
	if f != nil {
		return f
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, item := range list {
		other, ok := item.(map[string]any)
		if !ok {
			return nodeError(from, "only mappings can be merged")
		}
		for key, v := range other {
			if _, has := object[key]; !has {
				object[key] = v
			}
		}
	}
	return nil
}

func scalar(n *yaml.Node) (any, *formatError) {
	switch n.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool", "!!int", "!!float":
		var v any
		if err := n.Decode(&v); err != nil {
			return nil, nodeError(n, "%s", strings.TrimPrefix(err.Error(), "yaml: "))
		}
		if number, is := v.(float64); is {
			if math.IsInf(number, 0) || math.IsNaN(number) {
				return nil, nodeError(n, "a schema cannot validate %s", n.Value)
			}
			return json.Number(strconv.FormatFloat(number, 'g', -1, 64)), nil
		}
		if truth, is := v.(bool); is {
			return truth, nil
		}
		return json.Number(fmt.Sprint(v)), nil
	default: // dates and binaries are kept as written
		return n.Value, nil
	}
}
