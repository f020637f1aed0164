package faults

import (
	"bufio"
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

//go:embed masks.txt
var masksText string

// mask is a path that comparisons ignore.
type mask struct {
	path     []string // "[]" is each element of a list
	resource string
	plans    string
}

var masks = parseMasks(masksText)

func parseMasks(text string) []mask {
	var all []mask
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) < 4 {
			panic("masks.txt: a line needs a path, a resource, plans and a reason: " + lines.Text())
		}
		all = append(all, mask{splitPath(fields[0]), fields[1], fields[2]})
	}
	return all
}

// splitPath turns a.b[].c[d.e/f] into a, b, [], c, d.e/f.
func splitPath(path string) []string {
	var parts []string
	for path != "" {
		at := strings.IndexAny(path, ".[")
		switch {
		case at < 0:
			return append(parts, path)
		case at > 0:
			parts, path = append(parts, path[:at]), path[at:]
		case path[0] == '.':
			path = path[1:]
		case strings.HasPrefix(path, "[]"):
			parts, path = append(parts, "[]"), path[2:]
		default:
			end := strings.Index(path, "]")
			parts, path = append(parts, path[1:end]), path[end+1:]
		}
	}
	return parts
}

func (m mask) applies(key Key, kind Kind) bool {
	return (m.resource == "*" || m.resource == key.Resource.Resource) && (m.plans == "*" || strings.HasPrefix(string(kind), m.plans))
}

func remove(value any, path []string) {
	switch at := value.(type) {
	case map[string]any:
		if len(path) == 1 {
			delete(at, path[0])
			return
		}
		remove(at[path[0]], path[1:])
	case []any:
		if path[0] != "[]" {
			return
		}
		for _, element := range at {
			remove(element, path[1:])
		}
	}
}

// times are timestamps in texts, including annotations. Only their presence is compared.
var times = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// dump is the state of a namespace in a form that is equal for two runs of one scenario: YAML by object, without the paths masked for this
// kind of plan. Placeholders replace the namespace, known UIDs and times.
func dump(v View, namespace string, kind Kind) map[string]string {
	replace := []string{namespace, "NAMESPACE"}
	for key, object := range v.objects {
		replace = append(replace, string(object.GetUID()), "UID("+key.String()+")")
	}
	replacer := strings.NewReplacer(replace...)
	texts := map[string]string{}
	for key, object := range v.objects {
		object := object.DeepCopy()
		if v.tidy != nil {
			v.tidy(kind, object)
		}
		content := object.Object
		for _, m := range masks {
			if m.applies(key, kind) {
				remove(content, m.path)
			}
		}
		sortConditions(content)
		text, err := yaml.Marshal(content)
		if err != nil {
			text = fmt.Appendf(nil, "not YAML: %v", err)
		}
		texts[key.String()] = times.ReplaceAllString(replacer.Replace(string(text)), "TIME")
	}
	return texts
}

func sortConditions(content map[string]any) {
	conditions, found, err := unstructured.NestedSlice(content, "status", "conditions")
	if !found || err != nil {
		return
	}
	slices.SortFunc(conditions, func(a, b any) int { return strings.Compare(conditionType(a), conditionType(b)) })
	_ = unstructured.SetNestedSlice(content, conditions, "status", "conditions") // it was found there
}

func conditionType(condition any) string {
	fields, _ := condition.(map[string]any)
	name, _ := fields["type"].(string)
	return name
}

// difference is empty if two dumps are equal.
func difference(want, got map[string]string) string { return cmp.Diff(want, got) }
