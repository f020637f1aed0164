package render

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"text/template"

	"github.com/google/go-cmp/cmp"
)

// writer writes random templates.
type writer struct {
	*rand.Rand
	b     strings.Builder
	vars  int  // how many of $v0, $v1, ... are declared here
	loop  bool // inside a range
	inner bool // dot is text
}

func (w *writer) pick(texts ...string) string { return texts[w.IntN(len(texts))] }

// names are values. s1 and s2 are secret; nope is missing.
var names = []string{"a", "b", "empty", "s1", "s2", "nope"}

// operand writes a text in most cases.
func (w *writer) operand(depth int) string {
	switch w.IntN(8) {
	case 0:
		return w.pick(`"x"`, `""`, `"a\nb"`, "5", "0", "true", "false")
	case 1:
		return w.pick("$.Name", "$.Application", "$.Environment", "$.Namespace")
	case 2:
		if w.vars > 0 {
			return fmt.Sprint("$v", w.IntN(w.vars))
		}
		return `"no variable"`
	case 3:
		if depth > 0 {
			return "(" + w.pipe(depth-1) + ")"
		}
		return `"deep"`
	default:
		return w.value(w.pick(names...))
	}
}

// value writes a reference to a value, or dot.
func (w *writer) value(name string) string {
	if w.inner {
		return w.pick(".", "$.Values."+name, "$.Values."+name, `(index $.Values "`+name+`")`)
	}
	return w.pick(".Name", ".Values."+name, "$.Values."+name, `(index .Values "`+name+`")`)
}

func (w *writer) pipe(depth int) string {
	x := func() string { return w.operand(depth) }
	switch w.IntN(16) {
	case 0:
		return x() + " | default " + x()
	case 1:
		return "default " + x() + " " + x()
	case 2:
		return `required "message" ` + x()
	case 3:
		return w.pick("upper", "lower", "trim", "quote", "b64enc", "toJson", "not", "len") + " " + x()
	case 4:
		return x() + " | " + w.pick("upper", "lower", "trim", "quote", "b64enc", "toJson", "not", "len")
	case 5:
		return w.pick("indent", "nindent") + " 2 " + x()
	case 6:
		return w.pick("and", "or", "eq", "ne") + " " + x() + " " + x()
	case 7:
		return w.pick("and", "or") + " " + x() + " " + x() + " " + x()
	case 8:
		return x() + " | " + w.pick("and", "or", "eq", "ne") + " " + x()
	case 9:
		return w.pick("len $.Values", "toJson $.Values", `index $.Values "s1"`, "not $.Values")
	default:
		return x()
	}
}

// list writes a sequence of texts, actions and blocks.
func (w *writer) list(depth int) {
	for range 1 + w.IntN(3) {
		switch w.IntN(10) {
		case 0, 1, 2:
			w.b.WriteString(w.pick("text", " ", "\n", "-"))
		case 3:
			which := w.IntN(w.vars + 1) // an existing variable is hidden until the end of the block
			fmt.Fprintf(&w.b, "{{ $v%d := %s }}", which, w.pipe(2))
			w.vars = max(w.vars, which+1)
		case 4:
			if w.vars > 0 {
				fmt.Fprintf(&w.b, "{{ $v%d = %s }}", w.IntN(w.vars), w.pipe(2))
			}
		case 5, 6:
			if depth > 0 {
				w.block(depth - 1)
			}
		default:
			w.b.WriteString(w.pick("{{ ", "{{- ") + w.pipe(2) + w.pick(" }}", " -}}"))
		}
	}
}

func (w *writer) block(depth int) {
	vars, loop, inner := w.vars, w.loop, w.inner
	defer func() { w.vars, w.loop, w.inner = vars, loop, inner }()
	switch kind := w.IntN(3); {
	case kind == 0 && !w.loop:
		declared := w.IntN(3)
		decl := []string{"", fmt.Sprintf("$v%d := ", vars), fmt.Sprintf("$v%d, $v%d := ", vars, vars+1)}[declared]
		dot := "$"
		if !inner {
			dot = w.pick("", "$")
		}
		w.b.WriteString("{{ range " + decl + dot + ".Values }}")
		w.vars, w.loop, w.inner = vars+declared, true, true
	case kind == 1:
		w.b.WriteString("{{ with " + w.pipe(2) + " }}")
		w.inner = true
	default:
		w.b.WriteString("{{ if " + w.pipe(2) + " }}")
	}
	w.list(depth)
	w.vars, w.loop, w.inner = vars, loop, inner
	if w.IntN(2) == 0 {
		w.b.WriteString("{{ else }}")
		w.list(depth)
	}
	w.b.WriteString("{{ end }}")
}

func randomTemplate(r *rand.Rand) string {
	w := writer{Rand: r}
	w.list(4)
	return w.b.String()
}

// randomInput returns the context of random templates; the secrets' texts depend on n.
func randomInput(n int) Input {
	secrets := []string{"S3CRET-one", "", "S3CRET\ntwo", "A", "x"}
	return Input{
		Application: "app", Environment: "dev", Namespace: "ns", Name: "A",
		Values: map[string]Value{
			"a": {Text: "A"}, "b": {Text: "line\nbreak \"q\" <>"}, "empty": {},
			"s1": {Text: secrets[n%len(secrets)], Secret: true}, "s2": {Text: secrets[n/len(secrets)%len(secrets)], Secret: true},
		},
	}
}

// TestProperty_secretsStaySecret renders random templates with different secrets. The ConfigMap must be the same, and no error may quote a
// secret.
func TestProperty_secretsStaySecret(t *testing.T) {
	const templates = 6000
	public, rendered := 0, 0
	for seed := range uint64(templates) {
		text := randomTemplate(rand.New(rand.NewPCG(seed, 1)))
		var first *Output
		for n := range 25 {
			in := randomInput(n)
			in.Config = map[string]string{"K": text}
			out, err := Render(in)
			if err != nil {
				if strings.Contains(err.Error(), "S3CRET") {
					t.Fatalf("seed %d: %s\nthe error contains a secret: %v", seed, text, err)
				}
				continue
			}
			if first == nil {
				first = &out
				rendered++
				public += len(out.Data)
			}
			if !maps.Equal(first.Data, out.Data) {
				t.Fatalf("seed %d: %s\nthe ConfigMap depends on a secret: %q, then %q", seed, text, first.Data, out.Data)
			}
		}
	}
	if public < templates/20 || rendered-public < templates/20 {
		t.Errorf("of %d templates, %d were rendered and %d are public: too few", templates, rendered, public)
	}
}

// TestProperty_sameAsTextTemplate compares the output and the errors with those of text/template.
func TestProperty_sameAsTextTemplate(t *testing.T) {
	same := 0
	for seed := range uint64(10000) {
		text := randomTemplate(rand.New(rand.NewPCG(seed, 2)))
		text = strings.ReplaceAll(text, "nope", "a") // missing keys are the only difference
		in := randomInput(0)
		in.Config = map[string]string{"K": text}
		got, gotErr := Render(in)
		want, wantErr := reference(text, in)
		if (gotErr == nil) != (wantErr == nil) {
			t.Fatalf("seed %d: %s\n%v, text/template: %v", seed, text, gotErr, wantErr)
		}
		if gotErr != nil {
			continue
		}
		same++
		if text, _ := got.text("K"); text != want {
			t.Fatalf("seed %d: %s\n%s", seed, in.Config["K"], cmp.Diff(want, text))
		}
	}
	if same < 3000 {
		t.Errorf("only %d templates could be rendered", same)
	}
}

// reference renders with text/template.
func reference(text string, in Input) (string, error) {
	values := map[string]string{}
	for name, v := range in.Values {
		values[name] = v.Text
	}
	t, err := template.New("").Option("missingkey=error").Funcs(referenceFunctions).Parse(text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = t.Execute(&b, map[string]any{
		"Application": in.Application, "Environment": in.Environment, "Namespace": in.Namespace, "Name": in.Name,
		"Values": values,
	})
	return b.String(), err
}

var referenceFunctions = template.FuncMap{
	"upper":  func(v any) string { return strings.ToUpper(fmt.Sprint(v)) },
	"lower":  func(v any) string { return strings.ToLower(fmt.Sprint(v)) },
	"trim":   func(v any) string { return strings.TrimSpace(fmt.Sprint(v)) },
	"quote":  func(v any) string { return marshal(fmt.Sprint(v)) },
	"toJson": marshal,
	"b64enc": func(v any) string { return base64.StdEncoding.EncodeToString(fmt.Append(nil, v)) },
	"indent": func(n int, v any) string {
		pad := strings.Repeat(" ", n)
		return pad + strings.Join(strings.Split(fmt.Sprint(v), "\n"), "\n"+pad)
	},
	"nindent": func(n int, v any) string {
		pad := "\n" + strings.Repeat(" ", n)
		return pad + strings.Join(strings.Split(fmt.Sprint(v), "\n"), pad)
	},
	"default": func(d, v any) any {
		if is, _ := template.IsTrue(v); is {
			return v
		}
		return d
	},
	"required": func(message string, v any) (any, error) {
		if v == "" {
			return nil, errors.New(message)
		}
		return v, nil
	},
}

func marshal(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
	return strings.TrimSuffix(b.String(), "\n")
}
