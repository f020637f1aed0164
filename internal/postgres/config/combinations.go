package config

import (
	"errors"
	"fmt"
	"strings"
)

// reservedConnections are the parameters that keep connections back, with the number where neither the user nor Fettle sets it.
var reservedConnections = map[string]float64{"superuser_reserved_connections": 5, "reserved_connections": 0}

// CheckCombinations says which parameters a server would not start with beside each other, or with segments of its write-ahead log
// of so many MiB; 0 is 16. It is asked after [CheckParameters]: it skips what is no number. A server that runs takes some of
// these without a word, and fails at its next start.
func CheckCombinations(major int, wanted map[string]string, segmentMiB int) error {
	set := lowerNames(wanted)
	var errs []error
	most, reserved := numberOr(major, set, "max_connections", 100), 0.0
	for name, fallback := range reservedConnections {
		reserved += numberOr(major, set, name, fallback)
	}
	if reserved >= most {
		errs = append(errs, fmt.Errorf("parameter \"max_connections\": %s are not more than the %s that superuser_reserved_connections keeps back (5 by default): a server would not start",
			formatNumber(most), formatNumber(reserved)))
	}
	least := minWALSize(segmentMiB)
	for _, name := range []string{"max_wal_size", "min_wal_size"} {
		if _, asked := set[name]; asked && numberOr(major, set, name, least) < least {
			errs = append(errs, fmt.Errorf("parameter %q: at least %sMB, twice the size of a segment: a server would not start with less", name, formatNumber(least)))
		}
	}
	return errors.Join(errs...)
}

// minWALSize is the least that min_wal_size and max_wal_size may be, in MiB.
func minWALSize(segmentMiB int) float64 {
	if segmentMiB <= 0 {
		segmentMiB = 16
	}
	return float64(2 * segmentMiB)
}

// numberOr reads a parameter in its own unit; usual where it is not set, or is no number.
func numberOr(major int, set map[string]string, name string, fallback float64) float64 {
	value, ok := set[name]
	p, known := lookup(major, name)
	if !ok || !known {
		return fallback
	}
	n, err := p.number(value)
	if err != nil {
		return fallback
	}
	return n
}

// reservedWords are those that SQL takes for a name only in quotes: pg_get_keywords() of categories R and T.
var reservedWords = wordSet(`all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate
	collation column concurrently constraint create cross current_catalog current_date current_role current_schema current_time
	current_timestamp current_user default deferrable desc distinct do else end except false fetch for foreign freeze from full grant
	group having ilike in initially inner intersect into is isnull join lateral leading left like limit localtime localtimestamp natural
	not notnull null offset on only or order outer overlaps placing primary references returning right select session_user similar some
	symmetric system_user table tablesample then to trailing true union unique user using variadic verbose when where window with`)

func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(text) {
		set[word] = true
	}
	return set
}

// IsReservedWord reports whether every client would have to quote the name of a role or database.
func IsReservedWord(name string) bool { return reservedWords[name] }

// predefinedRoles are the versions from which on PostgreSQL has its own roles that others may be members of.
var predefinedRoles = map[string]int{
	"pg_read_all_data": 14, "pg_write_all_data": 14, "pg_checkpoint": 15, "pg_use_reserved_connections": 16,
}

// PredefinedRoleSince is the first version that has one of PostgreSQL's own roles.
func PredefinedRoleSince(name string) int { return max(MinMajor, predefinedRoles[name]) }
