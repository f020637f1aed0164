package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fettle-dev/fettle/internal/backup/job"
)

// variablePrefix starts the environment variable of each flag: FETTLE_WORKERS sets --workers.
const variablePrefix = "FETTLE_"

// otherVariables also set a flag: the manifests copy the image of the operator into OPERATOR_IMAGE, and Kubebuilder users expect
// ENABLE_WEBHOOKS. The variable with the prefix has precedence.
var otherVariables = map[string]string{"agent-image": "OPERATOR_IMAGE", "webhooks": "ENABLE_WEBHOOKS"}

// internalVariables have the prefix but set no flag: backup pods, the tools in hack/ and the tests read them. A name that ends in _ stands
// for all names that start with it.
var internalVariables = []string{
	job.EnvConfig,
	"FETTLE_CACHE", "FETTLE_CLUSTER", "FETTLE_CLUSTER_", "FETTLE_STARTED",
	"FETTLE_CERT_MANAGER", "FETTLE_DATABASES", "FETTLE_FAILOVER_LOG", "FETTLE_PG_", "FETTLE_POSTGRES_BIN", "FETTLE_STORES", "FETTLE_TEST_",
}

// acceptedTypes describes the values of a flag by its type, for types whose own errors do not.
var acceptedTypes = map[string]string{"bool": "true or false", "stringSlice": "a list separated by commas"}

// warning is a log message about an environment variable, with the names and values of its fields.
type warning struct {
	message string
	fields  []any
}

// variables are the environment variables that set a flag, the one with precedence first.
func variables(flag string) []string {
	own := variablePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
	if other, ok := otherVariables[flag]; ok {
		return []string{own, other}
	}
	return []string{own}
}

// visitFlags calls f for each flag that has a variable. Cobra adds --help to the flags of a command.
func visitFlags(flags *pflag.FlagSet, f func(*pflag.Flag)) {
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Name != "help" {
			f(flag)
		}
	})
}

// describeVariables adds the variables of each flag to its help.
func describeVariables(flags *pflag.FlagSet) {
	visitFlags(flags, func(f *pflag.Flag) {
		f.Usage += " [$" + strings.Join(variables(f.Name), ", $") + "]"
	})
}

// setFromEnvironment sets the flags that are not on the command line, and returns the variable of each flag that it set. It needs parsed
// flags: a list that was set before parsing would get the values of the command line in addition. Empty variables count as not set, because
// a Subscription cannot remove a variable of the Deployment.
func setFromEnvironment(flags *pflag.FlagSet, environment []string) (origins map[string]string, warnings []warning, err error) {
	values := map[string]string{}
	for _, entry := range environment {
		if name, value, _ := strings.Cut(entry, "="); value != "" {
			values[name] = value
		}
	}
	origins = map[string]string{}
	var errs []error
	visitFlags(flags, func(f *pflag.Flag) {
		names := slices.DeleteFunc(variables(f.Name), func(name string) bool {
			return values[name] == "" || isServiceLink(name, values) && strings.Contains(values[name], "://")
		})
		switch {
		case len(names) == 0:
		case !f.Changed:
			origins[f.Name] = names[0]
			if err := flags.Set(f.Name, values[names[0]]); err != nil {
				errs = append(errs, invalidVariable(f, names[0], values[names[0]], err))
			}
		case strings.HasPrefix(names[0], variablePrefix): // the manifests set OPERATOR_IMAGE, so a flag that overrides it is intended
			warnings = append(warnings, warning{
				"ignoring environment variable: the command line sets the flag", []any{"variable", names[0], "flag", "--" + f.Name},
			})
		}
	})
	return origins, append(warnings, unknownVariables(flags, values)...), errors.Join(errs...)
}

// invalidVariable replaces the error of pflag, which names the flag, by one that names the variable and the accepted values.
func invalidVariable(f *pflag.Flag, variable, value string, err error) error {
	if accepted := cmp.Or(acceptedLogging[f.Name], acceptedTypes[f.Value.Type()]); accepted != "" {
		return fmt.Errorf("%s=%q: must be %s", variable, value, accepted)
	}
	return fmt.Errorf("%s=%q: %w", variable, value, cmp.Or(errors.Unwrap(err), err))
}

// unknownVariables warns of variables that have the prefix and set no flag: a typo would otherwise go unnoticed.
func unknownVariables(flags *pflag.FlagSet, values map[string]string) []warning {
	var known []string
	visitFlags(flags, func(f *pflag.Flag) { known = append(known, variables(f.Name)[0]) })
	var warnings []warning
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !strings.HasPrefix(name, variablePrefix) || slices.Contains(known, name) || isInternal(name) || isServiceLink(name, values) {
			continue
		}
		nearest := slices.MinFunc(known, func(a, b string) int { return editDistance(name, a) - editDistance(name, b) })
		warnings = append(warnings, warning{"ignoring unknown environment variable", []any{"variable", name, "nearest", nearest}})
	}
	return warnings
}

func isInternal(name string) bool {
	return slices.ContainsFunc(internalVariables, func(known string) bool {
		return name == known || strings.HasSuffix(known, "_") && strings.HasPrefix(name, known)
	})
}

// linkSuffix ends the name of a variable that the kubelet sets for a Service.
var linkSuffix = regexp.MustCompile(`^_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_\w+)?)$`)

// isServiceLink reports whether a variable has the name of one that the kubelet sets for each Service of the namespace. A Service
// fettle-webhook sets FETTLE_WEBHOOK_PORT=tcp://10.0.0.1:443.
func isServiceLink(name string, values map[string]string) bool {
	for i, c := range name {
		if c == '_' && linkSuffix.MatchString(name[i:]) && values[name[:i]+"_SERVICE_HOST"] != "" {
			return true
		}
	}
	return false
}

// editDistance is the number of characters to insert, delete or replace to get from a to b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
