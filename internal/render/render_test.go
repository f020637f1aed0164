package render

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// shop is the context of these tests' templates; the texts of its secrets occur nowhere else.
func shop() Input {
	return Input{
		Application: "shop", Environment: "prod", Namespace: "team-a", Name: "web",
		Values: map[string]Value{
			"host": {Text: "db.local"}, "empty": {}, "lines": {Text: "one\ntwo"}, "padded": {Text: " x "},
			"a.b": {Text: "dotted"}, "html": {Text: `<a href="x">&</a>`},
			"password": {Text: "S3CRET-hunter2", Secret: true}, "token": {Text: "S3CRET-t0ken", Secret: true},
		},
	}
}

// texts are templates and their output. Templates that can see a secret are marked with "secret:".
var texts = []struct{ template, want string }{
	{"", ""},
	{"plain } text {", "plain } text {"},
	{"{{ .Application }}-{{ .Environment }}-{{ .Namespace }}-{{ .Name }}", "shop-prod-team-a-web"},
	{"{{ .Values.host }}:{{ $.Values.host }}", "db.local:db.local"},
	{`{{ index .Values "a.b" }} {{ index $.Values "host" }}`, "dotted db.local"},
	{"a {{- .Values.host -}} b", "adb.localb"},
	{"{{/* nothing */}}x", "x"},
	// Literal braces, as in docs/config-templates.md: files of Prometheus, Grafana and others.
	{`{{ "{{" }} $labels.instance }} is down`, "{{ $labels.instance }} is down"},
	{"{{ `{{ $labels.instance }} of {{ $labels.job }}` }}", "{{ $labels.instance }} of {{ $labels.job }}"},
	// A missing key and a default: https://github.com/external-secrets/external-secrets/issues/3480, 3843
	{`{{ .Values.nope | default "y" }}`, "y"},
	{`{{ default "y" .Values.nope }}`, "y"},
	{`{{ default "y" (.Values.nope) }}`, "y"},
	{`{{ (index .Values "no-pe") | default "y" | upper }}`, "Y"},
	{`{{ default (default "z" .Values.other) .Values.nope }}`, "z"},
	{`{{ .Values.nope | default .Values.host }}`, "db.local"},
	{`{{ .Values.empty | default "y" }}`, "y"},
	{`{{ .Values.host | default "y" }}`, "db.local"},
	{`{{ $.Values.nope | default 5 }}`, "5"},
	{`{{ with .Values.host }}{{ $.Values.nope | default . }}{{ end }}`, "db.local"},
	{`{{ required "set host" .Values.host }}{{ .Values.host | required "set host" }}`, "db.localdb.local"},
	{"{{ .Values.host | upper }} {{ lower \"ÄB\" }} [{{ trim .Values.padded }}]", "DB.LOCAL äb [x]"},
	{"{{ quote .Values.html }} {{ quote 5 }}", `"<a href=\"x\">&</a>" "5"`},
	{`{{ b64enc "user:pass" }}`, "dXNlcjpwYXNz"},
	{`{{ toJson .Values.html }} {{ toJson 5 }} {{ toJson true }}`, `"<a href=\"x\">&</a>" 5 true`},
	{"{{ indent 2 .Values.lines }}|{{ .Values.lines | nindent 1 }}", "  one\n  two|\n one\n two"},
	{"{{ if eq .Environment \"prod\" }}p{{ else if eq .Environment \"dev\" }}d{{ else }}o{{ end }}", "p"},
	{`{{ if and .Values.host (not .Values.empty) }}yes{{ end }}`, "yes"},
	{`{{ or .Values.empty .Values.host }} {{ and .Values.empty .Values.nope }}|`, "db.local |"},
	{`{{ eq .Environment "dev" "prod" }} {{ ne .Name "web" }} {{ len .Values.host }} {{ eq 3 3 }}`, "true false 8 true"},
	{`{{ $x := .Values.host }}{{ if $x }}{{ $x = "changed" }}{{ end }}{{ $x }}`, "changed"},
	{`{{ with $h := .Values.host }}{{ $h }}{{ . }}{{ else }}none{{ end }}`, "db.localdb.local"},
	{`{{ with .Values.empty }}x{{ else }}none {{ .Values.host }}{{ end }}`, "none db.local"},
	{"secret:{{ .Values.password }}", "S3CRET-hunter2"},
	{`secret:{{ index .Values "token" | upper }}`, "S3CRET-T0KEN"},
	{"secret:{{ if .Values.password }}yes{{ end }}", "yes"},
	{`secret:{{ if eq .Name "other" }}{{ .Values.password }}{{ end }}`, ""},
	{`secret:{{ $x := $.Values.password }}{{ with "" }}{{ else }}{{ $x }}{{ end }}`, "S3CRET-hunter2"},
	{"secret:{{ with .Values.token }}{{ . }}{{ end }}", "S3CRET-t0ken"},
	{"secret:{{ len .Values }}", "8"},
	{"secret:{{ range $k, $v := .Values }}{{ $k }} {{ end }}", "a.b empty host html lines padded password token "},
	{"secret:{{ range .Values }}{{ if eq . \"dotted\" }}found{{ end }}{{ end }}", "found"},
	{"secret:{{ with .Values }}{{ len . }}{{ end }}", "8"},
	{`secret:{{ range $k, $v := $.Values }}{{ if eq $k "host" }}{{ $v }} {{ $.Name }}{{ end }}{{ else }}{{ end }}`, "db.local web"},
}

func TestRender(t *testing.T) {
	for _, c := range texts {
		in := shop()
		template, secret := strings.CutPrefix(c.template, "secret:")
		in.Config = map[string]string{"KEY": template}
		want := Output{Data: map[string]string{"KEY": c.want}, Secret: map[string]string{}}
		if secret {
			want.Data, want.Secret = want.Secret, want.Data
		}
		got, err := Render(in)
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got)\n%s", template, err, diff)
		}
	}
}

func TestRender_separatesFilesAndSecrets(t *testing.T) {
	in := shop()
	in.Config = map[string]string{"HOST": "{{ .Values.host }}", "URL": "{{ .Values.host }}/{{ .Values.password }}"}
	in.Files = map[string]string{"app.yaml": "host: {{ .Values.host | quote }}\n", "token": "{{ .Values.token }}"}
	got, err := Render(in)
	if err != nil {
		t.Fatal(err)
	}
	want := Output{
		Data:   map[string]string{"HOST": "db.local", "app.yaml": "host: \"db.local\"\n"},
		Secret: map[string]string{"URL": "db.local/S3CRET-hunter2", "token": "S3CRET-t0ken"},
		Files:  []string{"app.yaml", "token"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestRender_withoutSecrets shows that .Values as a whole is not secret if no value is.
func TestRender_withoutSecrets(t *testing.T) {
	in := Input{Values: map[string]Value{"b": {Text: "2"}, "a": {Text: "1"}}, Config: map[string]string{
		"ALL": "{{ toJson .Values }}", "LOOP": "{{ range $k, $v := .Values }}{{ $k }}={{ $v }};{{ end }}",
	}}
	got, err := Render(in)
	want := map[string]string{"ALL": `{"a":"1","b":"2"}`, "LOOP": "a=1;b=2;"}
	if diff := cmp.Diff(want, got.Data); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	in.Values = nil
	in.Config = map[string]string{"LOOP": "{{ range .Values }}x{{ else }}none{{ end }}{{ if .Values }}some{{ end }}"}
	if got, err := Render(in); err != nil || got.Data["LOOP"] != "none" {
		t.Errorf("without values: %q, %v", got.Data["LOOP"], err)
	}
}

// rejected are invalid templates with the place and the text of the error.
var rejected = []struct {
	template     string
	line, column int
	problem      string
}{
	{"x\n  {{ upper .Values.nope }}", 2, 6, `the value "nope" is missing`},
	{`{{ index .Values "no-pe" }}`, 1, 4, `the value "no-pe" is missing`},
	{"{{ if .Values.nope }}{{ end }}", 1, 7, `the value "nope" is missing`},
	{"{{ $x := .Values.nope }}", 1, 4, `the value "nope" is missing`},
	{"{{ with .Values.nope }}{{ end }}", 1, 9, `the value "nope" is missing`},
	{`{{ eq .Values.nope "x" }}`, 1, 4, `the value "nope" is missing`},
	{`{{ or "" .Values.nope }}`, 1, 17, `the value "nope" is missing`},
	{`{{ not .Values.nope }}{{ len .Values.nope }}`, 1, 4, `the value "nope" is missing`},
	{`{{ len .Values.nope }}`, 1, 4, `the value "nope" is missing`},
	{`{{ toJson .Values.nope }}`, 1, 4, `the value "nope" is missing`},
	{`{{ default .Values.other .Values.nope }}`, 1, 4, `the value "other" is missing`},
	{`{{ required "set nope, please" .Values.nope }}`, 1, 4, "set nope, please"},
	{`{{ .Values.empty | required "set empty, please" }}`, 1, 20, "set empty, please"},
	{"{{ .Values }}", 1, 4, ".Values is not text"},
	{"{{ upper .Values }}", 1, 4, ".Values is not text"},
	{`{{ eq 1 "1" }}`, 1, 4, "a number can't be compared with a text"},
	{`{{ ne true "1" }}`, 1, 4, "a boolean can't be compared with a text"},
	{`{{ eq .Values .Values }}`, 1, 4, ".Values is not text"},
	{`{{ len 5 }}`, 1, 4, "a number has no length"},
	{"a\n{{ if }}", 2, 0, "missing value for if"},
	{"{{ $x }}", 1, 0, `undefined variable "$x"`},
	{"{{ .Foo }}", 1, 4, "there is no .Foo"},
	{"{{ .Application.x }}", 1, 16, "values are texts"},
	{"{{ .Values.host.name }}", 1, 11, "values are texts"},
	{"{{ $x := .Name }}{{ $x.y }}", 1, 23, "a variable holds text"},
	{"{{ . }}", 1, 4, "the whole context is not a value"},
	{"{{ $ }}", 1, 4, "the whole context is not a value"},
	{"{{ toJson $ }}", 1, 11, "the whole context is not a value"},
	{"{{ with .Name }}{{ .Values.host }}{{ end }}", 1, 27, "write $.Values.host"},
	{`{{ with .Name }}{{ index .Values "host" }}{{ end }}`, 1, 26, "write $.Values"},
	{`{{ index .Values .Name }}`, 1, 4, "index is called as"},
	{`{{ index .Name "x" }}`, 1, 4, "index is called as"},
	{`{{ "x" | index .Values }}`, 1, 10, "index is called as"},
	{`{{ printf "%s" .Name }}`, 1, 4, "there is no function printf"},
	{`{{ env "HOME" }}`, 1, 4, "there is no function env"},
	{`{{ lookup "v1" "Secret" "a" "b" }}`, 1, 4, "there is no function lookup"},
	{`{{ html .Name }}`, 1, 4, "there is no function html"},
	{`{{ call .Name }}`, 1, 4, "there is no function call"},
	{`{{ upper }}`, 1, 4, "upper takes 1 argument, not 0"},
	{`{{ upper "a" "b" }}`, 1, 4, "upper takes 1 argument, not 2"},
	{`{{ "a" | default "b" "c" }}`, 1, 10, "default takes 2 arguments, not 3"},
	{`{{ eq "a" }}`, 1, 4, "eq takes at least 2 arguments, not 1"},
	{`{{ required .Values.password .Values.nope }}`, 1, 4, "the first argument of required is a text"},
	{`{{ "x" | indent "2" }}`, 1, 10, "the first argument of indent is a number from 0 to 100"},
	{`{{ indent -1 "x" }}`, 1, 4, "the first argument of indent is a number from 0 to 100"},
	{`{{ nindent 101 "x" }}`, 1, 4, "the first argument of nindent is a number from 0 to 100"},
	{`{{ .Name "x" }}`, 1, 4, "is not a function"},
	{`{{ "x" | .Name }}`, 1, 10, "is not a function"},
	{`{{ upper lower }}`, 1, 10, "put the call of lower into parentheses"},
	{`{{ upper ($x := "a") }}`, 1, 11, "can't be declared inside parentheses"},
	{"{{ 1.5 }}", 1, 4, "only whole numbers"},
	{"{{ 'a' }}", 1, 4, "only whole numbers"},
	{"{{ 1i }}", 1, 4, "only whole numbers"},
	{"{{ nil }}", 1, 4, "nil is not available"},
	{"{{ (.Values).host }}", 1, 13, "is not available"},
	{"{{ range 5 }}{{ end }}", 1, 10, "range goes over .Values"},
	{"{{ range .Name }}{{ end }}", 1, 10, "range goes over .Values"},
	{"{{ range .Values.host }}{{ end }}", 1, 10, "range goes over .Values"},
	{"{{ range .Values | len }}{{ end }}", 1, 10, "range goes over .Values"},
	{"{{ range .Values }}{{ with \"x\" }}{{ range $.Values }}{{ end }}{{ end }}{{ end }}", 1, 43, "a range inside a range"},
	{"{{ range .Values }}{{ range .Values }}{{ end }}{{ end }}", 1, 29, "a range inside a range"},
	{"{{ $x := \"\" }}{{ range $x = .Values }}{{ end }}", 1, 24, "declare the variables of a range"},
	{"{{ range .Values }}{{ break }}{{ end }}", 1, 23, "break and continue are not available"},
	{`{{ template "x" }}`, 1, 13, "template is not available"},
	{`{{ define "x" }}a{{ end }}`, 1, 1, "define and block are not available"},
	{`{{ define "t" }}a{{ end }}`, 1, 0, ""},
	{`{{ block "x" . }}a{{ end }}`, 1, 1, "define and block are not available"},
	{strings.Repeat("{{ if true }}", 22) + strings.Repeat("{{ end }}", 22), 1, 280, "nests deeper than 20"},
	{"{{ if true }}" + strings.Repeat("{{ else if true }}", 21) + "{{ end }}", 1, 0, "nests deeper than 20"},
	{"{{ " + strings.Repeat("(", 21) + "1" + strings.Repeat(")", 21) + " }}", 1, 25, "nests deeper than 20"},
	{strings.Repeat("x", maxTemplate+1), 1, 1, "the template has 65537 bytes"},
	{"\xff{{ .Name }}", 0, 0, "the text is not UTF-8"},
}

func TestRender_rejects(t *testing.T) {
	for _, c := range rejected {
		in := shop()
		in.Config = map[string]string{"KEY": c.template}
		out, err := Render(in)
		failed, ok := errors.AsType[*Error](err)
		if !ok || len(failed.Faults) != 1 || len(out.Data)+len(out.Secret) > 0 {
			t.Errorf("%.80s: %v, %v", c.template, out, err)
			continue
		}
		f := failed.Faults[0]
		if f.Key != "config.KEY" || f.Line != c.line || c.column > 0 && f.Column != c.column || !strings.Contains(f.Problem, c.problem) {
			t.Errorf("%.80s: %v", c.template, f)
		}
		if strings.Contains(err.Error(), "S3CRET") {
			t.Errorf("%.80s: the error contains a secret: %v", c.template, err)
		}
	}
}

func TestRender_reportsManyFaults(t *testing.T) {
	in := shop()
	in.Config = map[string]string{}
	for i := range maxFaults + 5 {
		in.Config[fmt.Sprintf("KEY_%02d", i)] = "{{ .Values.nope }}"
	}
	in.Files = map[string]string{"z": "{{ .Values.nope }}"}
	_, err := Render(in)
	failed, _ := errors.AsType[*Error](err)
	if failed == nil || len(failed.Faults) != maxFaults || failed.More != 6 {
		t.Fatalf("%+v", failed)
	}
	if first := failed.Faults[0].Key; first != "config.KEY_00" {
		t.Errorf("the first fault is in %s", first)
	}
	if !strings.HasSuffix(err.Error(), "; and 6 more") {
		t.Errorf("%s", err)
	}
}

func TestRender_keepsItsInput(t *testing.T) {
	in := shop()
	in.Config = map[string]string{"KEY": "{{ range .Values }}{{ . }}{{ end }}"}
	values := maps.Clone(in.Values)
	first, err := Render(in)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if next, err := Render(in); err != nil || !cmp.Equal(first, next) {
			t.Fatalf("%v, then %v, %v", first, next, err)
		}
	}
	if !cmp.Equal(values, in.Values) {
		t.Error("the input was changed")
	}
}
