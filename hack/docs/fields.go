package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

type schema = apiextensionsv1.JSONSchemaProps

// kubernetesTypes are fields whose contents Kubernetes documents. The page names the type and leaves out what is below.
var kubernetesTypes = map[string]string{
	"spec.affinity":                        "Affinity",
	"spec.autoscaling.behavior":            "HorizontalPodAutoscalerBehavior",
	"spec.env[].valueFrom":                 "EnvVarSource",
	"spec.envFrom[]":                       "EnvFromSource",
	"spec.namespaceSelector":               "LabelSelector",
	"spec.networkPolicy.from[]":            "NetworkPolicyPeer",
	"spec.networkPolicy.metricsFrom[]":     "NetworkPolicyPeer",
	"spec.podSecurityContext":              "PodSecurityContext",
	"spec.resources":                       "ResourceRequirements",
	"spec.rollout.selector":                "LabelSelector",
	"spec.securityContext":                 "SecurityContext",
	"spec.tolerations[]":                   "Toleration",
	"spec.topologySpreadConstraints[]":     "TopologySpreadConstraint",
	"spec.volumeMounts[]":                  "VolumeMount",
	"spec.volumes[].configMap":             "ConfigMapVolumeSource",
	"spec.volumes[].emptyDir":              "EmptyDirVolumeSource",
	"spec.volumes[].persistentVolumeClaim": "PersistentVolumeClaimVolumeSource",
	"spec.volumes[].projected":             "ProjectedVolumeSource",
	"spec.volumes[].secret":                "SecretVolumeSource",
	"status.conditions[]":                  "Condition",
}

// quantity starts the pattern that controller-gen gives a resource.Quantity.
const quantity = `^(\+|-)?(([0-9]+`

// kindPage is the reference of one kind.
func kindPage(crd *apiextensionsv1.CustomResourceDefinition) string {
	version := crd.Spec.Versions[slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage })]
	names, out := crd.Spec.Names, &strings.Builder{}
	fmt.Fprintf(out, "# %s reference\n\n%s\n\n", names.Kind, version.Schema.OpenAPIV3Schema.Description)
	fmt.Fprintf(out, "The guide is [%s](../%s.md). `kubectl explain %s.spec` prints the same texts.\n\n", names.Kind, strings.ToLower(names.Kind), names.Singular)
	rows := [][]string{
		{"API version", "`" + crd.Spec.Group + "/" + version.Name + "`"},
		{"Full name", "`" + crd.Name + "`"},
		{"Scope", string(crd.Spec.Scope)},
	}
	if len(names.ShortNames) > 0 {
		rows = append(rows, []string{"Short names", "`" + strings.Join(names.ShortNames, "`, `") + "`"})
	}
	if len(names.Categories) > 0 {
		rows = append(rows, []string{"Categories", "`" + strings.Join(names.Categories, "`, `") + "`"})
	}
	fmt.Fprintf(out, "%s\n## Columns\n\n%s\n", table([]string{"Property", "Value"}, rows), columns(version))
	for _, part := range []string{"spec", "status"} {
		root := version.Schema.OpenAPIV3Schema.Properties[part]
		f := &fields{}
		for _, rule := range root.XValidations {
			fields, text, _ := strings.Cut(rule.Message, ": ")
			if text := fmt.Sprintf("`%s`: %s", fields, cell(text)); !slices.Contains(f.objectRules, text) {
				f.objectRules = append(f.objectRules, text)
			}
		}
		f.below(part, root)
		fmt.Fprintf(out, "## %s\n\n%s\n\n%s", part, root.Description, table([]string{"Field", "Type", "Default", "Description"}, f.rows))
		if len(f.objectRules) > 0 {
			out.WriteString("\nRules over several fields:\n\n")
		}
		for _, rule := range f.objectRules {
			fmt.Fprintf(out, "- %s\n", rule)
		}
		out.WriteString("\n")
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

func columns(version apiextensionsv1.CustomResourceDefinitionVersion) string {
	var rows [][]string
	for _, c := range version.AdditionalPrinterColumns {
		shown := "`kubectl get`"
		if c.Priority > 0 {
			shown = "`kubectl get -o wide`"
		}
		rows = append(rows, []string{c.Name, "`" + cell(c.JSONPath) + "`", shown})
	}
	return table([]string{"Column", "Value", "Shown by"}, rows)
}

// fields collects the rows of one table.
type fields struct {
	rows        [][]string
	objectRules []string // rules of the whole spec, which have no row
}

// below adds a row for each property of an object, and of the objects in lists and maps, in alphabetical order.
func (f *fields) below(path string, s schema) {
	if kubernetesTypes[path] != "" {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		at, field := path+"."+name, s.Properties[name]
		item, itemPath := innermost(field, at)
		text := []string{strings.TrimRight(cell(field.Description), " ")}
		if slices.Contains(s.Required, name) {
			text = append(text, "Required.")
		}
		text = append(text, limits(field)...)
		if itemPath != at && kubernetesTypes[itemPath] == "" && item.Type != "object" {
			if of := limits(item); len(of) > 0 {
				text = append(text, "Each: "+strings.Join(of, " "))
			}
		}
		f.rows = append(f.rows, []string{"`" + at + "`", typeOf(field, at), defaultOf(field), strings.Join(text, " ")})
		if itemPath != at && item.Type == "object" {
			f.rows[len(f.rows)-1][3] += suffix(limits(item))
		}
		f.below(itemPath, item)
	}
}

func suffix(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	return " " + strings.Join(texts, " ")
}

// innermost is what the lists and maps of a field hold, and its path.
func innermost(s schema, path string) (schema, string) {
	if kubernetesTypes[path] != "" {
		return s, path
	}
	if s.Items != nil && s.Items.Schema != nil {
		return innermost(*s.Items.Schema, path+"[]")
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		return innermost(*s.AdditionalProperties.Schema, path+".*")
	}
	return s, path
}

func typeOf(s schema, path string) string {
	switch known := kubernetesTypes[path]; {
	case known != "":
		return "Kubernetes `" + known + "`"
	case s.Items != nil && s.Items.Schema != nil:
		return "list of " + typeOf(*s.Items.Schema, path+"[]")
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return "map of " + typeOf(*s.AdditionalProperties.Schema, path+".*")
	case strings.HasPrefix(s.Pattern, quantity):
		return "quantity"
	case s.XIntOrString:
		return "integer or string"
	case s.Type == "":
		return "any"
	case s.Format == "date-time":
		return "time"
	}
	return s.Type
}

func defaultOf(s schema) string {
	if s.Default == nil {
		return ""
	}
	var value any
	if json.Unmarshal(s.Default.Raw, &value) == nil {
		if text, ok := value.(string); ok && text != "" {
			return "`" + cell(text) + "`"
		}
	}
	return "`" + cell(string(s.Default.Raw)) + "`"
}

// limits are what the schema says of a value, besides its type.
func limits(s schema) []string {
	var out []string
	if len(s.Enum) > 0 {
		values := make([]string, len(s.Enum))
		for i, value := range s.Enum {
			values[i] = "`" + strings.Trim(string(value.Raw), `"`) + "`"
		}
		out = append(out, "One of "+strings.Join(values, ", ")+".")
	}
	out = append(out, bounds(s.Minimum, s.Maximum, "")...)
	out = append(out, bounds(s.MinItems, s.MaxItems, " items")...)
	out = append(out, bounds(s.MinProperties, s.MaxProperties, " entries")...)
	if len(s.Enum) == 0 {
		out = append(out, bounds(s.MinLength, s.MaxLength, " characters")...)
	}
	if s.Pattern != "" && !strings.HasPrefix(s.Pattern, quantity) {
		out = append(out, "Matches `"+cell(s.Pattern)+"`.")
	}
	for _, rule := range s.XValidations {
		out = append(out, cell(sentence(rule.Message)))
	}
	return out
}

// bounds says a range in words.
func bounds[T int64 | float64](low, high *T, unit string) []string {
	switch {
	case low != nil && high != nil && *low == *high:
		return []string{fmt.Sprintf("Exactly %v%s.", *low, unit)}
	case low != nil && high != nil:
		return []string{fmt.Sprintf("%v to %v%s.", *low, *high, unit)}
	case low != nil:
		return []string{fmt.Sprintf("At least %v%s.", *low, unit)}
	case high != nil:
		return []string{fmt.Sprintf("At most %v%s.", *high, unit)}
	}
	return nil
}

// sentence is the message of a CEL rule, "field: must be …", as a sentence.
func sentence(message string) string {
	if before, after, ok := strings.Cut(message, ": "); ok && !strings.ContainsAny(before, " `") {
		message = after
	}
	if message == "" {
		return ""
	}
	return strings.ToUpper(message[:1]) + strings.TrimRight(message[1:], ".") + "."
}
