package render

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Render renders every template of in, or returns an *Error with a fault for each template that fails.
//
// A key goes into Output.Secret if its template mentions a secret value anywhere, also in a condition or in a part that is not rendered. It
// also does if the template mentions .Values as a whole while any value is secret. Output.Data therefore does not depend on the secret
// values.
func Render(in Input) (Output, error) {
	r := renderer{
		in: &in, values: newValues(in.Values), budget: &budget{steps: maxSteps, bytes: maxWork},
		out: Output{Data: map[string]string{}, Secret: map[string]string{}},
	}
	if r.checkInput(); len(r.faults) > 0 {
		return Output{}, r.faults.err(0)
	}
	for _, key := range slices.Sorted(maps.Keys(in.Config)) {
		r.render("config."+key, key, in.Config[key])
	}
	r.out.Files = slices.Sorted(maps.Keys(in.Files))
	for _, key := range r.out.Files {
		r.render("files["+key+"]", key, in.Files[key])
	}
	if err := r.faults.err(0); err != nil {
		return Output{}, err
	}
	return r.out, nil
}

// renderer is the state of one Render.
type renderer struct {
	in     *Input
	values *values
	budget *budget
	out    Output
	faults faults
	data   int // size of out.Data
	secret int // size of out.Secret
	full   bool
}

// checkInput checks the names and sizes of templates.
func (r *renderer) checkInput() {
	if n := len(r.in.Config) + len(r.in.Files); n > maxKeys {
		r.faults.add("", "there are %d keys and files, at most %d are allowed", n, maxKeys)
		return
	}
	size := 0
	for key, template := range r.in.Config {
		size += len(template)
		r.checkKey("config."+key, key)
	}
	for key, template := range r.in.Files {
		size += len(template)
		r.checkKey("files["+key+"]", key)
		if _, both := r.in.Config[key]; both {
			r.faults.add("files["+key+"]", "config has a key of the same name: rename one of them")
		}
	}
	if size > maxTemplates {
		r.faults.add("", "the templates have %d bytes together, at most %d are allowed", size, maxTemplates)
	}
}

func (r *renderer) checkKey(where, key string) {
	for _, problem := range validation.IsConfigMapKey(key) {
		r.faults.add(where, "not a valid ConfigMap key: %s", problem)
	}
}

// render renders one template into Data or Secret.
func (r *renderer) render(where, key, template string) {
	if r.full {
		return
	}
	text, secret, err := r.text(template)
	if problem, ok := errors.AsType[*templateError](err); ok {
		r.faults = append(r.faults, problem.fault(where, template))
		r.full = r.budget.steps < 0 || r.budget.bytes < 0
		return
	}
	half, size, kind := r.out.Data, &r.data, "ConfigMap"
	if secret {
		half, size, kind = r.out.Secret, &r.secret, "Secret"
	}
	switch *size += len(key) + len(text); {
	case *size > maxData:
		r.full = true // further keys would only repeat the error
		r.faults = append(r.faults, Fault{
			Key: where, Problem: fmt.Sprintf("with it, the %s has more than %d bytes: split the configuration", kind, maxData), TooLarge: true,
		})
	case !secret && !utf8.ValidString(text):
		r.faults.add(where, "the text is not UTF-8, which a ConfigMap can't hold: use b64enc")
	default:
		half[key] = text
	}
}

// text renders one template, and reports whether it can see a secret value. Its error is a *templateError.
func (r *renderer) text(template string) (string, bool, error) {
	t, err := check(template)
	if err != nil {
		return "", false, err
	}
	e := evaluator{in: r.in, values: r.values, budget: r.budget, bytesLeft: maxData}
	if err := e.list(t.root); err != nil {
		return "", false, err
	}
	return e.out.String(), t.reach.secret(r.in.Values), nil
}
