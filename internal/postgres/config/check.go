package config

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// extensionName matches the name of an extension's parameter.
var extensionName = regexp.MustCompile(`^([a-z_][a-z0-9_]{0,62})\.[a-z_][a-z0-9_]{0,62}$`)

// CheckParameters validates a user's parameters for a major version: unknown names, invalid values, and parameters that are
// unsafe or managed by Fettle. The error lists all of them in order, with what to use instead.
func CheckParameters(major int, wanted map[string]string) error {
	if err := checkMajor(major); err != nil {
		return err
	}
	var errs []error
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		folded := strings.ToLower(name)
		if other, twice := seen[folded]; twice {
			errs = append(errs, fmt.Errorf("parameter %q is the same as %q: remove one of them", name, other))
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
		return errors.New("cannot be set because " + why)
	}
	if strings.Contains(name, ".") {
		return checkExtension(name, value)
	}
	p, known := lookup(major, name)
	if !known {
		return unknownParameter(major, name)
	}
	if p.context == "internal" {
		return errors.New("cannot be set because it is read-only: remove it")
	}
	if err := p.check(value); err != nil {
		return err
	}
	if check := valueChecks[name]; check != nil {
		return check(p, value)
	}
	return nil
}

// checkExtension accepts only parameters of known extensions. Others could run code, such as plperl.on_init.
func checkExtension(name, value string) error {
	match := extensionName.FindStringSubmatch(name)
	if match == nil {
		return errors.New("invalid name of an extension parameter: use extension.parameter")
	}
	if !slices.Contains(extensionPrefixes, match[1]) {
		return fmt.Errorf("parameters of %s cannot be set for the whole server: use ALTER ROLE or ALTER DATABASE", match[1])
	}
	return checkOneLine(value)
}

// unknownParameter distinguishes a parameter of another version from a mistake.
func unknownParameter(major int, name string) error {
	var versions []string
	for m := MinMajor; m <= MaxMajor; m++ {
		if _, ok := lookup(m, name); ok {
			versions = append(versions, fmt.Sprint(m))
		}
	}
	if len(versions) > 0 {
		return fmt.Errorf("PostgreSQL %d has no such parameter: only versions %s have it", major, strings.Join(versions, ", "))
	}
	return fmt.Errorf("PostgreSQL %d has no such parameter: check its name", major)
}

// CheckSynchronous rejects a synchronous_commit with which commits wait for no standby. Call it if synchronous replication
// is enabled.
func CheckSynchronous(wanted map[string]string) error {
	switch value := strings.ToLower(lowerNames(wanted)["synchronous_commit"]); value {
	case "", "on", "remote_write", "remote_apply", "true", "yes", "1":
		return nil
	default:
		return fmt.Errorf("parameter \"synchronous_commit\": with %q commits wait for no standby: set it to on, or remove spec.synchronous", value)
	}
}

// CheckName validates the name of a role, database or extension: it must not be empty, longer than 63 bytes, or contain
// control characters.
func CheckName(name string) error {
	if name == "" {
		return errors.New("the name is empty")
	}
	if len(name) > 63 {
		return fmt.Errorf("the name %q has %d bytes: use at most 63", name, len(name))
	}
	return checkOneLine(name)
}
