package config

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// extensionName is that of a parameter of an extension.
var extensionName = regexp.MustCompile(`^([a-z_][a-z0-9_]{0,62})\.[a-z_][a-z0-9_]{0,62}$`)

// CheckParameters says what is wrong with the parameters that a user wants for a version: unknown names, values that are
// not of the parameter's type, and what Fettle owns or would not be safe. It names all of them, in order, and what to
// use instead.
func CheckParameters(major int, wanted map[string]string) error {
	if err := checkMajor(major); err != nil {
		return err
	}
	var errs []error
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		folded := strings.ToLower(name)
		if other, twice := seen[folded]; twice {
			errs = append(errs, fmt.Errorf("parameter %q is the same as %q: leave one of them out", name, other))
			continue
		}
		seen[folded] = name
		if err := checkParameter(major, folded, wanted[name]); err != nil {
			errs = append(errs, fmt.Errorf("parameter %q: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func checkMajor(major int) error {
	if major < MinMajor || major > MaxMajor {
		return fmt.Errorf("PostgreSQL %d is not supported: use %d to %d", major, MinMajor, MaxMajor)
	}
	return nil
}

func checkParameter(major int, name, value string) error {
	if why := restrictionReason(name); why != "" {
		return errors.New("it can't be set: " + why)
	}
	if strings.Contains(name, ".") {
		return checkExtension(name, value)
	}
	p, known := lookup(major, name)
	if !known {
		return unknownParameter(major, name)
	}
	if p.context == "internal" {
		return errors.New("it can't be set: the server only reports it")
	}
	if err := p.check(value); err != nil {
		return err
	}
	if check := valueChecks[name]; check != nil {
		return check(p, value)
	}
	return nil
}

// checkExtension takes parameters of known extensions. What they mean is known to the extension alone, so only some are
// let through: others could run code, such as plperl.on_init.
func checkExtension(name, value string) error {
	match := extensionName.FindStringSubmatch(name)
	if match == nil {
		return errors.New("this is no name of a parameter of an extension")
	}
	if !slices.Contains(extensionPrefixes, match[1]) {
		return fmt.Errorf("the parameters of %s can't be set for the whole server: set it for a role or database, with ALTER ROLE or ALTER DATABASE", match[1])
	}
	return checkOneLine(value)
}

// unknownParameter tells a parameter of another version from a mistake.
func unknownParameter(major int, name string) error {
	var versions []string
	for m := MinMajor; m <= MaxMajor; m++ {
		if _, ok := lookup(m, name); ok {
			versions = append(versions, fmt.Sprint(m))
		}
	}
	if len(versions) > 0 {
		return fmt.Errorf("PostgreSQL %d has no such parameter: it is one of %s", major, strings.Join(versions, ", "))
	}
	return fmt.Errorf("PostgreSQL %d has no such parameter", major)
}

// CheckSynchronous says whether the parameters undo what synchronous replication promises: a commit that is acknowledged
// by a standby before its client learns of it. Ask it when synchronous replication is wanted.
func CheckSynchronous(wanted map[string]string) error {
	switch value := strings.ToLower(lowerNames(wanted)["synchronous_commit"]); value {
	case "", "on", "remote_write", "remote_apply", "true", "yes", "1":
		return nil
	default:
		return fmt.Errorf("parameter \"synchronous_commit\": with %q no standby has to acknowledge a commit: use on, or leave out the spec's synchronous", value)
	}
}

// CheckName says why a name can't be that of a role, database or extension: empty, longer than 63 bytes, or with
// characters that are not printable.
func CheckName(name string) error {
	if name == "" {
		return errors.New("the name is empty")
	}
	if len(name) > 63 {
		return fmt.Errorf("the name %q has %d bytes; at most 63 count", name, len(name))
	}
	return checkOneLine(name)
}
