package render

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// formats are files and the expected errors; "" if none.
var formats = []struct {
	name, text string
	line       int
	problem    string
}{
	{"a.json", `{"a": [1, 2.5e3, null], "b": "S3CRET"}`, 0, ""},
	{"a.json", "{\n\"a\": S3CRET\n}", 2, "not valid JSON: invalid character 'S'"},
	{"a.JSON", "{}{}", 1, "not valid JSON"},
	{"a.json", "", 1, "not valid JSON: unexpected end"},
	{"a.json", strings.Repeat("[", 20000), 1, "exceeded max depth"},
	{"a.yaml", "a: 1\nb: [x, y]\n---\nc: S3CRET\n", 0, ""},
	{"a.yaml", "", 0, ""},
	{"a.yml", "a: b: S3CRET", 0, "not valid YAML: mapping values are not allowed"},
	{"a.yaml", "a: 1\nb: 2\na: S3CRET\n", 3, `not valid YAML: the key "a" occurs twice`},
	{"a.yaml", "x: {a: 1, S3CRET: 2, S3CRET: 3}", 1, `the key "S3CRET" occurs twice`},
	{"a.yaml", "a: 1\n\"1\": x\n1: y\n", 0, ""},
	{"a.yaml", "? [S3CRET]\n: x\n", 1, "a key is not text"},
	{"a.yaml", "a: 1\nb: 2\n  c: S3CRET\n", 3, "mapping values are not allowed"},
	{"a.yaml", "a: *S3CRET", 0, "unknown anchor 'S3CRET' referenced"},
	{"a.yaml", strings.Repeat("[", 101) + strings.Repeat("]", 101), 1, "nests deeper than 100"},
	{"a.yaml", strings.Repeat("--- a\n", 1001), 0, "more than 1000 documents"},
	{"a.properties", "# comment\n! too\n\na = 1\nb: 2\nc 3\nd\n e\\=f = \\u00e4\nlong = a\\\n  b\\\n  c\nend\\\\\nz=\\", 0, ""},
	{"a.properties", "a=1\r\nb=2\r\n", 0, ""},
	{"a.properties", "a=1\nS3CRET=2\nb=\\\n x\nS3CRET:3", 5, `not valid properties: the key "S3CRET" occurs twice`},
	{"a.properties", "a=\\u12S3CRET", 1, "four hexadecimal digits"},
	{"a.properties", "x=1\n=S3CRET", 2, "a line has no key"},
	{"a.txt", "{{{ S3CRET", 0, ""},
	{"json", "{{{ S3CRET", 0, ""},
}

func TestCheckFormats(t *testing.T) {
	for _, c := range formats {
		open := Output{Data: map[string]string{c.name: c.text}, Files: []string{c.name}}
		hidden := Output{Secret: open.Data, Files: open.Files}
		if c.problem == "" {
			if err := errors.Join(CheckFormats(open), CheckFormats(hidden)); err != nil {
				t.Errorf("%s: %.60q: %v", c.name, c.text, err)
			}
			continue
		}
		f, ok := oneFault(CheckFormats(open))
		if !ok || f.Key != "files["+c.name+"]" || f.Line != c.line || !strings.Contains(f.Problem, c.problem) {
			t.Errorf("%s: %.60q: %v", c.name, c.text, f)
		}
		if diff := cmp.Diff(f.Line, hiddenLine(t, CheckFormats(hidden))); diff != "" {
			t.Errorf("%s: %.60q: the error of a secret file has another line: %s", c.name, c.text, diff)
		}
	}
}

// hiddenLine returns the line of the only fault of err, which must not quote a secret file.
func hiddenLine(t *testing.T, err error) int {
	t.Helper()
	f, ok := oneFault(err)
	if !ok || strings.Contains(f.String(), "S3CRET") || !strings.HasPrefix(f.Problem, "not valid ") {
		t.Errorf("the error of a secret file is %v", err)
	}
	return f.Line
}

// oneFault returns the only fault of err.
func oneFault(err error) (Fault, bool) {
	if failed, ok := errors.AsType[*Error](err); ok && len(failed.Faults) == 1 {
		return failed.Faults[0], true
	}
	return Fault{}, false
}

// TestCheckFormats_ignoresKeys shows that only files have a format.
func TestCheckFormats_ignoresKeys(t *testing.T) {
	if err := CheckFormats(Output{Data: map[string]string{"a.json": "{"}}); err != nil {
		t.Error(err)
	}
}

func TestDocument(t *testing.T) {
	const text = `
anchor: &x {n: 1, m: 2}
list: [*x, 0x10, 1.5e3, true, ~, 2001-01-01, "5", 18446744073709551615]
merged: {<<: *x, m: 3}
several: {<<: [{a: 1}, {a: 2, b: 2}]}
1: one
`
	want := `map[1:one anchor:map[m:2 n:1] list:[map[m:2 n:1] 16 1500 true <nil> 2001-01-01 5 18446744073709551615] ` +
		`merged:map[m:3 n:1] several:map[a:1 b:2]]`
	got, f := document("a.yaml", text, 1000)
	if f != nil {
		t.Fatal(f.text)
	}
	if diff := cmp.Diff(want, fmt.Sprint(got)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for _, c := range []struct{ name, text, problem string }{
		{"a.yaml", "a: .inf", "a schema cannot validate .inf"},
		{"a.yaml", "a: !!int x", "cannot decode"},
		{"a.yaml", "a: {<<: x}", "only mappings can be merged"},
		{"a.yaml", "a: &a [*a]", "deeper than 100"},
		{"a.yaml", "a\n---\nb", "the file holds 2 documents"},
		{"a.toml", "a", "must end in .json, .yaml or .yml"},
		{"a.json", "{", "unexpected end"},
		{"a.yaml", billion(10), "too large after aliases are expanded"},
		{"a.yaml", "a: &a " + strings.Repeat("x", 10000) + "\nb: [" + strings.Repeat("*a,", 100) + "]", "too large after aliases"},
		{"a.yaml", "a: &a {" + strings.Repeat("x", 1000) + ": 1}\nb: [" + strings.Repeat("*a,", 300) + "]", "too large after aliases"},
	} {
		if v, f := document(c.name, c.text, 1000); f == nil || !strings.Contains(f.text, c.problem) {
			t.Errorf("%.40q: %v %+v", c.text, v, f)
		}
	}
	if _, f := document("a.yaml", "", 10); f == nil || !strings.Contains(f.text, "0 documents") {
		t.Errorf("an empty file: %+v", f)
	}
	if v, f := document("a.yaml", "# nothing\n---\n", 10); f != nil || v != nil {
		t.Errorf("an empty document: %v %+v", v, f)
	}
}

// billion returns a document of n levels; each is ten times as large as the previous one.
func billion(n int) string {
	var b strings.Builder
	b.WriteString("a0: &a0 x\n")
	for i := range n {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 10))
	}
	return b.String()
}
