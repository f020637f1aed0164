package config

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// builtinRules are Fettle's own rules. They precede the user's rules, which therefore cannot override them.
var builtinRules = []string{
	`local all "` + Superuser + `" peer map=` + identMap,
	`local all "` + MonitorUser + `" peer map=` + identMap,
	`local all all reject`,
	`local replication all reject`,
	`hostssl replication "` + ReplicationUser + `" all cert`,
	`hostssl "postgres" "` + ReplicationUser + `" all cert`, // pg_rewind
	`host all "` + Superuser + `" all reject`,
	`host all "` + MonitorUser + `" all reject`,
	`host all "` + ReplicationUser + `" all reject`,
	`host replication all all reject`,
}

// defaultRule applies if the user has no rules: all roles log in with a password over TLS. PostgreSQL rejects clients
// without a matching rule.
const defaultRule = `hostssl all all all scram-sha-256`

func renderHBA(rules []Rule) (string, error) {
	if err := checkRules(rules); err != nil {
		return "", err
	}
	lines := append([]string{strings.TrimSuffix(header, "\n")}, builtinRules...)
	for _, rule := range rules {
		lines = append(lines, rule.line())
	}
	if len(rules) == 0 {
		lines = append(lines, defaultRule)
	}
	return strings.Join(lines, "\n") + "\n", nil
}

// checkRules validates the user's rules.
func checkRules(rules []Rule) error {
	var errs []error
	for i, rule := range rules {
		if err := rule.check(); err != nil {
			errs = append(errs, fmt.Errorf("spec.pgHBA[%d]: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

func (r Rule) check() error {
	for _, name := range append(append([]string{}, r.Databases...), r.Users...) {
		if err := CheckName(name); err != nil {
			return err
		}
		if strings.Contains(name, `"`) || strings.HasPrefix(name, "/") {
			return fmt.Errorf("the name %q must not contain a quote or start with a slash", name)
		}
	}
	switch r.Auth {
	case Password, Certificate, Reject:
	default:
		return fmt.Errorf("invalid authentication method %q: use %s, %s or %s", r.Auth, Password, Certificate, Reject)
	}
	if r.Address == "" {
		return nil
	}
	_, errAddress := netip.ParseAddr(r.Address)
	_, errNetwork := netip.ParsePrefix(r.Address)
	if errAddress != nil && errNetwork != nil || strings.Contains(r.Address, "%") {
		return fmt.Errorf("invalid address %q: use an IP address or a network such as 10.0.0.0/8", r.Address)
	}
	return nil
}

// line formats the rule for pg_hba.conf. Quoted names are literal. Reject applies with and without TLS.
func (r Rule) line() string {
	kind := "hostssl"
	if r.Auth == Reject {
		kind = "host"
	}
	address := r.Address
	if address == "" {
		address = "all"
	} else if !strings.Contains(address, "/") {
		address = singleAddress(address)
	}
	return fmt.Sprintf("%s %s %s %s %s", kind, quoted(r.Databases), quoted(r.Users), address, r.Auth)
}

func singleAddress(address string) string {
	if strings.Contains(address, ":") {
		return address + "/128"
	}
	return address + "/32"
}

func quoted(names []string) string {
	if len(names) == 0 {
		return "all"
	}
	return `"` + strings.Join(names, `","`) + `"`
}

// renderIdent maps operating system users to Fettle's roles on the socket.
func renderIdent(users []string) (string, error) {
	lines := []string{strings.TrimSuffix(header, "\n")}
	for _, user := range users {
		if err := CheckName(user); err != nil {
			return "", fmt.Errorf("operating system user: %w", err)
		}
		if strings.Contains(user, `"`) || strings.HasPrefix(user, "/") {
			return "", fmt.Errorf("operating system user %q: the name must not contain a quote or start with a slash", user)
		}
		for _, role := range []string{Superuser, MonitorUser} {
			lines = append(lines, identMap+` "`+user+`" "`+role+`"`)
		}
	}
	return strings.Join(lines, "\n") + "\n", nil
}
