package config

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// table lists the parameters of PostgreSQL, one line for each parameter and range of versions with the same limits. It was
// generated from pg_settings of a server of each version (13.23, 14.23, 15.18, 16.14, 17.10 and 18.4), plus the compression
// methods of the official images. TestParameters_matchServer compares it with the installed server.
//
//go:embed parameters.tsv
var table string

// parameter is a parameter of PostgreSQL.
type parameter struct {
	name string
	// context is when it can be set: internal, postmaster, sighup, backend, superuser-backend, superuser or user.
	context string
	// kind is bool, integer, real, string or enum.
	kind string
	// unit applies to numbers without a unit: B, kB, 8kB, MB, us, ms, s, min or "".
	unit     string
	min, max float64
	values   []string
}

// columns is the number of columns in the table.
const columns = 8

// parameters are the parameters of each version, by lower-case name.
var parameters = sync.OnceValue(func() map[int]map[string]parameter {
	all := map[int]map[string]parameter{}
	for major := MinMajor; major <= MaxMajor; major++ {
		all[major] = map[string]parameter{}
	}
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		p, first, last := parseParameter(strings.TrimRight(line, "\n"))
		for major := first; major <= last; major++ {
			all[major][strings.ToLower(p.name)] = p
		}
	}
	return all
})

// parseParameter parses a line of the table. The table is part of the program, so it panics on errors, which the tests
// find.
func parseParameter(line string) (p parameter, first, last int) {
	f := strings.Split(line, "\t")
	if len(f) != columns {
		panic(fmt.Sprintf("parameters.tsv: %d columns in %q", len(f), line))
	}
	for i := range f {
		if f[i] == "-" {
			f[i] = ""
		}
	}
	from, to, _ := strings.Cut(f[1], "-")
	p = parameter{name: f[0], context: f[2], kind: f[3], unit: f[4], min: number(f[5]), max: number(f[6])}
	if f[7] != "" {
		p.values = strings.Split(f[7], ",")
	}
	return p, int(number(from)), int(number(to))
}

func number(text string) float64 {
	if text == "" {
		return 0
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(fmt.Sprintf("parameters.tsv: %q is no number", text))
	}
	return n
}

// lookup finds a parameter of a version, ignoring case.
func lookup(major int, name string) (parameter, bool) {
	p, ok := parameters()[major][strings.ToLower(name)]
	return p, ok
}

// lowerNames converts names to lower case, as PostgreSQL does.
func lowerNames(set map[string]string) map[string]string {
	folded := make(map[string]string, len(set))
	for name, value := range set {
		folded[strings.ToLower(name)] = value
	}
	return folded
}

// StandbyMinimums are the parameters that must be at least as high on a standby as on its primary. Increase them on the
// standbys first, and decrease them on the primary first.
func StandbyMinimums() []string {
	return []string{
		"max_connections", "max_locks_per_transaction", "max_prepared_transactions", "max_wal_senders", "max_worker_processes",
	}
}
