package render

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// fault renders in, which must fail, and returns the first fault.
func fault(t *testing.T, in Input) Fault {
	t.Helper()
	_, err := Render(in)
	failed, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("no error: %v", err)
	}
	return failed.Faults[0]
}

func expect(t *testing.T, f Fault, key, problem string) {
	t.Helper()
	if f.Key != key || !strings.Contains(f.Problem, problem) {
		t.Errorf("%v, want %s: %s", f, key, problem)
	}
}

func TestBoundOfDoubling(t *testing.T) {
	in := Input{Config: map[string]string{"K": `{{ "\\" ` + strings.Repeat("| quote ", 1000) + "}}"}}
	expect(t, fault(t, in), "config.K", "functions read and produce more than 16777216 bytes")
	in.Config["K"] = "{{ .Values.big | indent 100 | indent 100 | indent 100 }}"
	in.Values = map[string]Value{"big": {Text: strings.Repeat("\n", 100<<10)}}
	expect(t, fault(t, in), "config.K", "functions read and produce")
}

// TestBoundOfResults produces one result that is much longer than its inputs.
func TestBoundOfResults(t *testing.T) {
	in := Input{Config: map[string]string{"K": "{{ if quote .Values.big }}{{ end }}"}}
	in.Values = map[string]Value{"big": {Text: strings.Repeat(`"`, maxWork/2)}}
	expect(t, fault(t, in), "config.K", "functions read and produce")
}

func TestBoundOfComparisons(t *testing.T) {
	big := strings.Repeat("x", maxData/2)
	in := Input{
		Values: map[string]Value{"a": {Text: big + "a"}, "b": {Text: big + "b"}},
		Config: map[string]string{"K": strings.Repeat("{{ if eq .Values.a .Values.b }}{{ end }}", 100)},
	}
	expect(t, fault(t, in), "config.K", "functions read and produce")
}

func TestBoundOfSteps(t *testing.T) {
	in := Input{Values: map[string]Value{}, Config: map[string]string{
		"K": "{{ range .Values }}" + strings.Repeat("{{ if false }}{{ end }}", 500) + "{{ end }}", "L": "{{ .Name }}",
	}}
	for i := range 2000 {
		in.Values[fmt.Sprint("v", i)] = Value{}
	}
	_, err := Render(in)
	failed, _ := errors.AsType[*Error](err)
	if failed == nil || len(failed.Faults) != 1 { // no key is rendered after the budget is spent
		t.Fatalf("%v", err)
	}
	expect(t, failed.Faults[0], "config.K", "more than 1000000 steps")
	in.Config["K"] = strings.Repeat("{{ range .Values }}{{ end }}", 1000)
	expect(t, fault(t, in), "config.K", "more than 1000000 steps")
}

func TestBoundOfValues(t *testing.T) {
	in := Input{Config: map[string]string{"K": strings.Repeat("{{ if toJson .Values }}{{ end }}", 100)}}
	in.Values = map[string]Value{"big": {Text: strings.Repeat("x", maxData)}}
	expect(t, fault(t, in), "config.K", "functions read and produce")
}

func TestBoundOfOneText(t *testing.T) {
	in := Input{Values: map[string]Value{"big": {Text: strings.Repeat("x", maxData/4)}}}
	in.Config = map[string]string{"KEY": strings.Repeat("{{ .Values.big }}", 5)}
	expect(t, fault(t, in), "config.KEY", "the text grows beyond 1048576 bytes")
}

// TestBoundOfObject counts the names of keys: four quarters leave no room for them.
func TestBoundOfObject(t *testing.T) {
	for _, secret := range []bool{false, true} {
		in := Input{Values: map[string]Value{"big": {Text: strings.Repeat("x", maxData/4), Secret: secret}}}
		in.Config = map[string]string{"A": "{{ .Values.big }}", "B": "{{ .Values.big }}", "C": "{{ .Values.big }}"}
		in.Files = map[string]string{"d": "{{ .Values.big }}"}
		kind := "the ConfigMap has more than 1048576 bytes"
		if secret {
			kind = "the Secret has more than 1048576 bytes"
		}
		expect(t, fault(t, in), "files[d]", kind)
		delete(in.Files, "d")
		if _, err := Render(in); err != nil {
			t.Errorf("three quarters: %v", err)
		}
	}
}

func TestBoundOfTemplates(t *testing.T) {
	in := Input{Config: map[string]string{}}
	for i := range 17 {
		in.Config[fmt.Sprint("K", i)] = "{{/*" + strings.Repeat("x", maxTemplate-8) + "*/}}"
	}
	expect(t, fault(t, in), "", "the templates have 1114112 bytes together")
	in.Config = map[string]string{}
	for i := range maxKeys + 1 {
		in.Config[fmt.Sprint("K", i)] = ""
	}
	expect(t, fault(t, in), "", "there are 2001 keys and files")
}

func TestKeys(t *testing.T) {
	in := Input{Config: map[string]string{"a b": ""}}
	expect(t, fault(t, in), "config.a b", "not a valid ConfigMap key")
	in.Config = map[string]string{"..": ""}
	expect(t, fault(t, in), "config...", "not a valid ConfigMap key")
	in = Input{Files: map[string]string{"conf/app.yaml": ""}}
	expect(t, fault(t, in), "files[conf/app.yaml]", "not a valid ConfigMap key")
	in = Input{Config: map[string]string{"app.yaml": ""}, Files: map[string]string{"app.yaml": ""}}
	expect(t, fault(t, in), "files[app.yaml]", "config has a key of the same name")
}

func TestProblem_isShort(t *testing.T) {
	in := Input{Config: map[string]string{"K": `{{ index .Values "` + strings.Repeat("ä", 1000) + `" }}`}}
	f := fault(t, in)
	if len(f.Problem) > maxProblem || len(f.Problem) < maxProblem-4 || !strings.HasSuffix(f.Problem, "ä ...") {
		t.Errorf("%d bytes: %s", len(f.Problem), f.Problem)
	}
}
