package cmd

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// completed are the options of a manager with a command line and an environment.
func completed(t *testing.T, args, environment []string) (*managerOptions, *pflag.FlagSet, []warning, error) {
	t.Helper()
	o := &managerOptions{}
	c := o.command()
	if err := c.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	warnings, err := o.complete(c.Flags(), environment)
	return o, c.Flags(), warnings, err
}

// valuesOf are two valid values of a flag that are not its default.
func valuesOf(t *testing.T, f *pflag.Flag) (environment, commandLine string) {
	t.Helper()
	switch f.Name {
	case "webhook-certs":
		return certsSelfSigned, certsProvided
	case "leader-elect-lease-duration":
		return "40s", "50s"
	case "leader-elect-renew-deadline":
		return "11s", "12s"
	}
	if values := loggingValues(f.Name); len(values) > 0 {
		return values[0], values[1]
	}
	values, ok := map[string][2]string{
		"bool":        {"false", "true"},
		"destination": {"s3://of-environment", `{"uri":"gs://of-command-line"}`},
		"duration":    {"3s", "4s"},
		"float32":     {"7.5", "8.5"},
		"int":         {"17", "18"},
		"string":      {"of-environment", "of-command-line"},
		"stringSlice": {"a,b", "c"},
	}[f.Value.Type()]
	if !ok {
		t.Fatalf("--%s has the type %s: add values of this type to this test", f.Name, f.Value.Type())
	}
	if f.DefValue == "false" {
		values[0], values[1] = values[1], values[0]
	}
	return values[0], values[1]
}

// loggingValues are the values that acceptedLogging names.
func loggingValues(flag string) []string {
	return slices.DeleteFunc(regexp.MustCompile(`,? or |, `).Split(acceptedLogging[flag], -1), func(value string) bool {
		return value == "" || strings.Contains(value, " ")
	})
}

func TestAcceptedLogging(t *testing.T) {
	for flag := range acceptedLogging {
		for _, value := range loggingValues(flag) {
			if _, _, _, err := completed(t, nil, []string{variables(flag)[0] + "=" + value}); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestEnvironment_setsEachFlag(t *testing.T) {
	visitFlags(new(managerOptions).command().Flags(), func(flag *pflag.Flag) {
		ofEnvironment, ofCommandLine := valuesOf(t, flag)
		for _, variable := range variables(flag.Name) {
			environment := []string{"PATH=/bin", variable + "=" + ofEnvironment}
			_, flags, warnings, err := completed(t, nil, environment)
			if got := valueOf(flags, flag.Name); err != nil || got != ofEnvironment || len(warnings) > 0 {
				t.Errorf("%s=%s: --%s is %q, warnings %v, error %v", variable, ofEnvironment, flag.Name, got, warnings, err)
			}
			_, flags, _, err = completed(t, []string{"--" + flag.Name + "=" + ofCommandLine}, environment)
			if got := valueOf(flags, flag.Name); err != nil || got != ofCommandLine {
				t.Errorf("%s=%s and --%s=%s: %q, %v", variable, ofEnvironment, flag.Name, ofCommandLine, got, err)
			}
			_, flags, warnings, err = completed(t, nil, []string{variable + "="})
			if got := valueOf(flags, flag.Name); err != nil || got != strings.Trim(flag.DefValue, "[]") || len(warnings) > 0 {
				t.Errorf("empty %s: --%s is %q, default %q, warnings %v, error %v", variable, flag.Name, got, flag.DefValue, warnings, err)
			}
		}
	})
}

// valueOf is the value of a flag as the command line has it. pflag shows a list in brackets.
func valueOf(flags *pflag.FlagSet, name string) string {
	return strings.Trim(flags.Lookup(name).Value.String(), "[]")
}

func TestEnvironment_setsOptions(t *testing.T) {
	o, _, _, err := completed(t, []string{"--watch-namespaces=c"}, []string{
		"FETTLE_WORKERS=12", "FETTLE_WATCH_NAMESPACES=a,b", "FETTLE_WEBHOOKS=true", "ENABLE_WEBHOOKS=false", "OPERATOR_IMAGE=own:v1",
	})
	if err != nil {
		t.Fatal(err)
	}
	if o.workers != 12 || !slices.Equal(o.watchNamespaces, []string{"c"}) || !o.webhooks || o.agentImage != "own:v1" {
		t.Errorf("workers %d, namespaces %q, webhooks %t, image %s", o.workers, o.watchNamespaces, o.webhooks, o.agentImage)
	}
	o, _, warnings, err := completed(t, []string{"--webhooks=false"}, []string{"ENABLE_WEBHOOKS=true", "FETTLE_AGENT_IMAGE=other:v2", "OPERATOR_IMAGE=own:v1"})
	if err != nil || len(warnings) > 0 || o.webhooks || o.agentImage != "other:v2" {
		t.Errorf("webhooks %t, image %s, warnings %v, error %v", o.webhooks, o.agentImage, warnings, err)
	}
}

// TestEnvironment_rejectsBadValues gives each flag that is not a string a value that it cannot parse.
func TestEnvironment_rejectsBadValues(t *testing.T) {
	var environment, names []string
	visitFlags(new(managerOptions).command().Flags(), func(f *pflag.Flag) {
		if f.Value.Type() != "string" {
			names = append(names, variables(f.Name)[0])
			environment = append(environment, variables(f.Name)[0]+`=a"b`)
		}
	})
	_, _, _, err := completed(t, nil, environment)
	if err == nil {
		t.Fatal("all bad values are accepted")
	}
	lines := strings.Split(err.Error(), "\n")
	for i, name := range names {
		if i >= len(lines) || !strings.HasPrefix(lines[i], name+`="a\"b": must be `) {
			t.Errorf("the error does not say what %s must be: add the type to acceptedTypes", name)
		}
	}
	for environment, want := range map[string]string{
		"FETTLE_WORKERS=many":                    `FETTLE_WORKERS="many": must be an integer`,
		"FETTLE_LEADER_ELECT_RETRY_PERIOD=2":     `FETTLE_LEADER_ELECT_RETRY_PERIOD="2": must be a duration like "30s" or "5m"`,
		"FETTLE_ZAP_ENCODER=xml":                 `FETTLE_ZAP_ENCODER="xml": must be json or console`,
		"FETTLE_WORKERS=0":                       `FETTLE_WORKERS=0: must be at least 1`,
		"FETTLE_WATCH_NAMESPACES=a,":             `FETTLE_WATCH_NAMESPACES=a,: has an empty name; leave the list out to watch all namespaces`,
		"FETTLE_LEADER_ELECT_LEASE_DURATION=10s": `FETTLE_LEADER_ELECT_LEASE_DURATION=10s: must be more than --leader-elect-renew-deadline=10s`,
		"ENABLE_WEBHOOKS=never":                  `ENABLE_WEBHOOKS="never": must be true or false`,
	} {
		if _, _, _, err := completed(t, nil, []string{environment}); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", environment, err, want)
		}
	}
}

// TestEnvironment_warns names a variable that has no effect. Variables of Services and of other parts of Fettle are not meant for the manager.
func TestEnvironment_warns(t *testing.T) {
	_, flags, warnings, err := completed(t, []string{"--workers=3"}, []string{
		"FETTLE_WORKER=9", "FETTLE_WORKERS=9", "FETTLE_ZAP_LOGLEVEL=debug", "WORKERS=9", "FETTLE_BACKUP={}", "FETTLE_CLUSTER=/tmp/c", "FETTLE_TEST_X=1",
		"FETTLE_WEBHOOK_SERVICE_HOST=10.0.0.1", "FETTLE_WEBHOOK_SERVICE_PORT=443", "FETTLE_WEBHOOK_PORT=tcp://10.0.0.1:443",
		"FETTLE_X_SERVICE_SERVICE_HOST=10.0.0.2", "FETTLE_X_SERVICE_SERVICE_PORT_WEBHOOK=443", "FETTLE_X_SERVICE_PORT=tcp://10.0.0.2:443",
		"FETTLE_X_SERVICE_PORT_443_TCP_ADDR=10.0.0.2",
	})
	if err != nil {
		t.Fatal(err)
	}
	got := [][]any{}
	for _, w := range warnings {
		got = append(got, append([]any{w.message}, w.fields...))
	}
	want := [][]any{
		{"ignoring environment variable: the command line sets the flag", "variable", "FETTLE_WORKERS", "flag", "--workers"},
		{"ignoring unknown environment variable", "variable", "FETTLE_WORKER", "nearest", "FETTLE_WORKERS"},
		{"ignoring unknown environment variable", "variable", "FETTLE_ZAP_LOGLEVEL", "nearest", "FETTLE_ZAP_LOG_LEVEL"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if port := valueOf(flags, "webhook-port"); port != "9443" {
		t.Errorf("the variable of the Service fettle-webhook sets --webhook-port=%s", port)
	}
	_, flags, _, err = completed(t, nil, []string{"FETTLE_WEBHOOK_SERVICE_HOST=10.0.0.1", "FETTLE_WEBHOOK_PORT=9444"})
	if port := valueOf(flags, "webhook-port"); err != nil || port != "9444" {
		t.Errorf("--webhook-port=%s, want that of the variable, not of the Service (%v)", port, err)
	}
}

// TestEnvironment_ofProcess starts a manager with a typo and a bad value, as a Subscription would.
func TestEnvironment_ofProcess(t *testing.T) {
	t.Setenv("FETTLE_WEBHOOKS", "false")
	t.Setenv("FETTLE_WORKRES", "7")
	manager := startManager(t)
	manager.waitReady(t)
	manager.stop(t)
	if found := slices.ContainsFunc(strings.Split(manager.log.String(), "\n"), func(line string) bool {
		entry := map[string]any{}
		return json.Unmarshal([]byte(line), &entry) == nil && entry["level"] == "warn" &&
			entry["variable"] == "FETTLE_WORKRES" && entry["nearest"] == "FETTLE_WORKERS"
	}); !found {
		t.Error("the log has no warning of FETTLE_WORKRES")
	}

	t.Setenv("FETTLE_WORKERS", "many")
	manager = startManager(t)
	select {
	case <-manager.ended:
	case <-time.After(waitTimeout):
		t.Fatal("the manager keeps running with FETTLE_WORKERS=many")
	}
	if want := `FETTLE_WORKERS="many": must be an integer`; manager.err == nil || !strings.Contains(manager.log.String(), want) {
		t.Errorf("the manager exited with %v, want %s", manager.err, want)
	}
}

func TestHelp_namesVariables(t *testing.T) {
	var text strings.Builder
	c := New()
	c.SetArgs([]string{"manager", "--help"})
	c.SetOut(&text)
	if err := c.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	visitFlags(new(managerOptions).command().Flags(), func(f *pflag.Flag) {
		if row := regexp.MustCompile(`--` + f.Name + `[ \[].*\[\$` + strings.Join(variables(f.Name), `, \$`) + `\]`); !row.MatchString(text.String()) {
			t.Errorf("the help of --%s does not name %q", f.Name, variables(f.Name))
		}
	})
}

// TestDocumentedVariables_exist finds no variable in the pages that sets no flag, except in the example of the warning of one.
func TestDocumentedVariables_exist(t *testing.T) {
	var known []string
	visitFlags(new(managerOptions).command().Flags(), func(f *pflag.Flag) { known = append(known, variables(f.Name)...) })
	for _, page := range []string{"configure.md", "install.md"} {
		text := regexp.MustCompile(`.*ignoring unknown environment variable.*`).ReplaceAllString(readFile(t, "docs", page), "")
		for _, name := range regexp.MustCompile(`FETTLE_[A-Z_]*[A-Z]`).FindAllString(text, -1) {
			if !slices.Contains(known, name) {
				t.Errorf("docs/%s has %s, which sets no flag", page, name)
			}
		}
	}
}

// TestInternalVariables finds the variables with the prefix that Go code reads: the manager must not take one for a typo.
func TestInternalVariables(t *testing.T) {
	var known []string
	visitFlags(new(managerOptions).command().Flags(), func(f *pflag.Flag) { known = append(known, variables(f.Name)...) })
	literal := regexp.MustCompile(`"(FETTLE_[A-Z_]*[A-Z])[="]`)
	for _, folder := range []string{"api", "cmd", "controllers", "hack", "internal"} {
		err := filepath.WalkDir(filepath.Join("..", "..", folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, match := range literal.FindAllStringSubmatch(string(text), -1) {
				if name := match[1]; !isInternal(name) && !slices.Contains(known, name) {
					t.Errorf("%s reads %s: add it to internalVariables", path, name)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
