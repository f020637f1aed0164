package cmd

import (
	"os"
	"path/filepath"
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

func TestWebhooksByEnvironment(t *testing.T) {
	for value, want := range map[string]bool{"": true, "true": true, "false": false} {
		t.Setenv("ENABLE_WEBHOOKS", value)
		o := &managerOptions{}
		if o.command(); o.webhooks != want {
			t.Errorf("ENABLE_WEBHOOKS=%q: webhooks %t, want %t", value, o.webhooks, want)
		}
	}
}

// TestFlagsAreDocumented finds each flag in docs/configure.md, with its default.
func TestFlagsAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "configure.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(page)) {
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
