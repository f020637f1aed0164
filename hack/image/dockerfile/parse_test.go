package dockerfile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	const text = `# a comment
FROM quay.io/operator-framework/opm:v1.73.0 AS builder
ADD catalog /configs
RUN ["/bin/opm", "serve", "/configs", "--cache-dir=/tmp/cache", "--cache-only"]

FROM scratch
COPY --from=builder /configs /configs
LABEL a=1 \
      # between
      "b"="two words" json="{\"a\": 1}" single='it is \n' es\ caped=yes
label c three words
ENTRYPOINT ["/bin/opm"]
CMD serve
`
	want := []Stage{
		{Base: "quay.io/operator-framework/opm:v1.73.0", Name: "builder", Steps: []Step{
			{Line: 3, Instruction: "ADD", Args: []string{"catalog", "/configs"}},
			{Line: 4, Instruction: "RUN", Exec: true, Args: []string{"/bin/opm", "serve", "/configs", "--cache-dir=/tmp/cache", "--cache-only"}},
		}},
		{Base: "scratch", Steps: []Step{
			{Line: 7, Instruction: "COPY", Flags: []string{"--from=builder"}, Args: []string{"/configs", "/configs"}},
			{Line: 8, Instruction: "LABEL", Args: []string{"a=1", "b=two words", `json={"a": 1}`, `single=it is \n`, "es caped=yes"}},
			{Line: 11, Instruction: "LABEL", Args: []string{"c", "three", "words"}},
			{Line: 12, Instruction: "ENTRYPOINT", Exec: true, Args: []string{"/bin/opm"}},
			{Line: 13, Instruction: "CMD", Args: []string{"serve"}},
		}},
	}
	got, err := Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
}

func TestParse_rejects(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"run":        {"FROM scratch\nRUN apt-get update", "line 2: RUN is not supported"},
		"run as opm": {"FROM scratch\nRUN opm serve /configs --cache-dir=/tmp/cache --cache-only; rm -rf /", "line 2: RUN is not supported"},
		"variable":   {"FROM scratch\nLABEL version=$VERSION", "line 2: variables are not supported"},
		"unknown":    {"FROM scratch\n\nHEALTHCHECK NONE", "line 3: HEALTHCHECK is not supported"},
		"no from":    {"LABEL a=1", "line 1: LABEL before the first FROM"},
		"empty":      {"# nothing", "no FROM instruction"},
		"from":       {"FROM --platform=linux/amd64 scratch", "FROM: want IMAGE"},
		"quote":      {"FROM scratch\nLABEL a=\"open", "line 2: missing closing quote"},
		"backslash":  {"FROM scratch\nLABEL a=\\ ", "line 2: "},
		"no words":   {"FROM scratch\nCOPY", "COPY without arguments"},
	} {
		_, err := Parse(strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want %q in it", name, err, c.want)
		}
	}
}
