package render

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// secretMarker is the text of a secret that occurs nowhere else.
const secretMarker = "S3CRET-0f9a1c"

// FuzzRender renders any template. The rendering must end, stay within its limits, be deterministic, and keep secrets in the Secret.
func FuzzRender(f *testing.F) {
	for _, c := range texts {
		f.Add(strings.TrimPrefix(c.template, "secret:"), "value")
	}
	for _, c := range rejected {
		f.Add(c.template, "")
	}
	for seed := range uint64(100) {
		f.Add(randomTemplate(rand.New(rand.NewPCG(seed, 3))), "two\nlines")
	}
	f.Fuzz(func(t *testing.T, template, value string) {
		if strings.Contains(template, secretMarker) || strings.Contains(value, secretMarker) {
			t.Skip()
		}
		in := randomInput(0)
		in.Config = map[string]string{"KEY": template}
		in.Values["a"], in.Values["value"] = Value{Text: value}, Value{Text: value}
		in.Values["s1"] = Value{Text: secretMarker, Secret: true}
		first, firstErr := Render(in)
		checkError(t, firstErr)
		checkOutput(t, first)
		again, againErr := Render(in)
		if diff := cmp.Diff(first, again); diff != "" || fmt.Sprint(firstErr) != fmt.Sprint(againErr) {
			t.Fatalf("%v, then %v\n%s", firstErr, againErr, diff)
		}
		in.Values["s1"] = Value{Secret: true}
		other, err := Render(in)
		if firstErr == nil && err == nil && !maps.Equal(first.Data, other.Data) {
			t.Fatalf("the ConfigMap depends on a secret: %q, then %q", first.Data, other.Data)
		}
	})
}

// checkError fails if an error contains a forbidden text.
func checkError(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	failed, ok := errors.AsType[*Error](err)
	if !ok || len(failed.Faults) == 0 || len(failed.Faults) > maxFaults {
		t.Fatalf("%#v", err)
	}
	for _, fault := range failed.Faults {
		if len(fault.Problem) > maxProblem || fault.Problem == "" || strings.Contains(fault.Problem, secretMarker) {
			t.Fatalf("%v", fault)
		}
	}
}

// checkOutput fails if the output contains a forbidden text.
func checkOutput(t *testing.T, out Output) {
	t.Helper()
	for key, text := range out.Data {
		if _, both := out.Secret[key]; both || strings.Contains(text, secretMarker) {
			t.Fatalf("%s: %q", key, text)
		}
	}
	for _, half := range []map[string]string{out.Data, out.Secret} {
		size := 0
		for key, text := range half {
			size += len(key) + len(text)
		}
		if size > maxData {
			t.Fatalf("%d bytes", size)
		}
	}
}

// FuzzSchema validates any document against any schema, once as a public file and once as a secret.
func FuzzSchema(f *testing.F) {
	for _, c := range schemas {
		f.Add(c.schema, `{"a": [1, "`+secretMarker+`"]}`)
	}
	for _, c := range formats {
		f.Add(`{"required": ["a"], "additionalProperties": {"type": "integer"}}`, strings.ReplaceAll(c.text, "S3CRET", secretMarker))
	}
	f.Add(`{"additionalProperties": {"minLength": 4}}`, billion(4))
	f.Add(`{"uniqueItems": true, "items": {"multipleOf": 0.1}}`, "[1, 1.0, 1e3, 0x10]")
	f.Fuzz(func(t *testing.T, schema, document string) {
		if strings.Contains(schema, secretMarker) {
			t.Skip()
		}
		usable := CheckSchema([]byte(schema))
		checkError(t, usable)
		for _, name := range []string{"f.json", "f.yaml", "f.properties"} {
			s := Schemas{Config: []byte(schema), Files: map[string][]byte{name: []byte(schema)}}
			hidden := Output{Secret: map[string]string{name: document, "KEY": document}, Files: []string{name}}
			if err := Validate(hidden, s); err != nil {
				checkError(t, err)
			} else if usable != nil && schema != "" {
				t.Fatalf("valid, although its schema is not usable: %v", usable)
			}
			checkError(t, CheckFormats(hidden))
			open := Output{Data: hidden.Secret, Files: hidden.Files}
			if openErr, hiddenErr := CheckFormats(open), CheckFormats(hidden); (openErr == nil) != (hiddenErr == nil) {
				t.Fatalf("%v, as a secret: %v", openErr, hiddenErr)
			}
			if openErr, hiddenErr := Validate(open, s), Validate(hidden, s); (openErr == nil) != (hiddenErr == nil) {
				t.Fatalf("%v, as a secret: %v", openErr, hiddenErr)
			}
		}
	})
}
