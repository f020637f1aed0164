package cmd

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string // what the error names; none where the flags are fine
	}{
		{},
		{args: []string{"--workers=1", "--webhook-certs=self-signed", "--watch-namespaces=a,b", "--kube-api-qps=20", "--kube-api-burst=30"}},
		{args: []string{"--workers=0"}, want: []string{"--workers=0"}},
		{args: []string{"--webhook-port=0"}, want: []string{"--webhook-port=0"}},
		{args: []string{"--webhook-port=65536"}, want: []string{"--webhook-port=65536"}},
		{args: []string{"--webhook-certs=letsencrypt"}, want: []string{"--webhook-certs=letsencrypt", "provided", "self-signed"}},
		{args: []string{"--kube-api-qps=5", "--kube-api-burst=0"}, want: []string{"--kube-api-burst=0"}},
		{args: []string{"--watch-namespaces=a,"}, want: []string{"--watch-namespaces"}},
		{args: []string{"--leader-elect-lease-duration=10s"}, want: []string{"--leader-elect-lease-duration=10s"}},
		{args: []string{"--leader-elect-retry-period=9s"}, want: []string{"--leader-elect-retry-period=9s"}},
		{args: []string{"--leader-elect-retry-period=0s"}, want: []string{"--leader-elect-retry-period=0s"}},
		{args: []string{"--workers=-1", "--webhook-port=-1"}, want: []string{"--workers=-1", "--webhook-port=-1"}},
	} {
		o := &managerOptions{}
		command := o.command()
		if err := command.ParseFlags(c.args); err != nil {
			t.Fatal(err)
		}
		err := o.validate()
		if (err == nil) != (len(c.want) == 0) {
			t.Errorf("%q: %v, want %q", c.args, err, c.want)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q: %q does not name %s", c.args, err, part)
			}
		}
	}
}

func TestAgentImage_hasVersionOfBuild(t *testing.T) {
	t.Cleanup(func() { Version = "" })
	for version, want := range map[string]string{"v1.2.3": "ghcr.io/fettle-dev/fettle:v1.2.3", "": "ghcr.io/fettle-dev/fettle:latest"} {
		Version = version
		o := &managerOptions{}
		if o.command(); o.agentImage != want {
			t.Errorf("version %q: %s, want %s", version, o.agentImage, want)
		}
	}
}

// TestFlagsAreDocumented finds each flag in docs/configure.md, with its default, and the variables that do not follow the rule of the page.
func TestFlagsAreDocumented(t *testing.T) {
	t.Cleanup(func() { Version = "" })
	Version = "VERSION" // as the page shows the version of the build
	page := readFile(t, "docs", "configure.md")
	for flag, variable := range otherVariables {
		if row := regexp.MustCompile("(?m)^\\| `" + variable + "` \\|.*`--" + flag + "`"); !row.MatchString(page) {
			t.Errorf("docs/configure.md has no row for %s that names --%s", variable, flag)
		}
	}
	rows := map[string]string{}
	for line := range strings.Lines(page) {
		if cells := strings.Split(line, "|"); len(cells) > 3 && strings.HasPrefix(strings.TrimSpace(cells[1]), "`--") {
			rows[strings.Trim(cells[1], " `-")] = strings.Trim(cells[2], " `")
		}
	}
	new(managerOptions).command().Flags().VisitAll(func(f *pflag.Flag) {
		want, ok := rows[f.Name]
		delete(rows, f.Name)
		if fallback := strings.Trim(f.DefValue, "[]"); !ok {
			t.Errorf("docs/configure.md has no row for --%s", f.Name)
		} else if fallback != want {
			t.Errorf("docs/configure.md says that --%s is %q by default, it is %q", f.Name, want, fallback)
		}
	})
	for name := range rows {
		t.Errorf("docs/configure.md has a row for --%s, which is not a flag", name)
	}
}
