package config

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// table lists what a server knows, a line for each parameter and run of versions in which it has the same limits. It was
// made from pg_settings of a server of each version (13.23, 14.23, 15.18, 16.14, 17.10 and 18.4), plus the compression
// methods that the official images are built with; TestParameters_matchServer compares it with whatever server is installed.
//
//go:embed parameters.tsv
var table string

// parameter is one that a server knows.
type parameter struct {
	name string
	// context says when it can be set: internal, postmaster, sighup, backend, superuser-backend, superuser or user.
	context string
	// kind is bool, integer, real, string or enum.
	kind string
	// unit is that of a number without one: B, kB, 8kB, MB, us, ms, s, min or "".
	unit     string
	min, max float64
	values   []string
}

// columns of the table.
const columns = 8

// parameters are all of a version, by name in lower case.
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

// parseParameter reads a line of the table. The table is part of the program: a line that can't be read is a mistake in
// it, and the tests find it.
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

// lookup finds a parameter of a version, whatever its case.
func lookup(major int, name string) (parameter, bool) {
	p, ok := parameters()[major][strings.ToLower(name)]
	return p, ok
}

// lowerNames puts names into lower case, as PostgreSQL reads them.
func lowerNames(set map[string]string) map[string]string {
	folded := make(map[string]string, len(set))
	for name, value := range set {
		folded[strings.ToLower(name)] = value
	}
	return folded
}

// StandbyMinimums are the parameters that a standby must have at least as high as its primary, or it can't be one: raise
// them on the standbys first, and lower them on the primary first.
func StandbyMinimums() []string {
	return []string{
		"max_connections", "max_locks_per_transaction", "max_prepared_transactions", "max_wal_senders", "max_worker_processes",
	}
}
