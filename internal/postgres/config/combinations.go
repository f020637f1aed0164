package config

import (
	"errors"
	"fmt"
	"strings"
)

// reservedConnections are the parameters that reserve connections, with their defaults.
var reservedConnections = map[string]float64{"superuser_reserved_connections": 5, "reserved_connections": 0}

// CheckCombinations returns an error for parameters with which a server would not start in combination, or with a WAL
// segment size in MiB. The size defaults to 16. Call it after [CheckParameters]: it skips invalid numbers. A running server
// accepts some of them silently and fails at its next start.
func CheckCombinations(major int, wanted map[string]string, segmentMiB int) error {
	set := lowerNames(wanted)
	var errs []error
	most, reserved := numberOr(major, set, "max_connections", 100), 0.0
	for name, fallback := range reservedConnections {
		reserved += numberOr(major, set, name, fallback)
	}
	if reserved >= most {
		errs = append(errs, fmt.Errorf("parameter \"max_connections\": %s must be more than the %s reserved by superuser_reserved_connections (default 5): increase max_connections",
			formatNumber(most), formatNumber(reserved)))
	}
	least := minWALSize(segmentMiB)
	for _, name := range []string{"max_wal_size", "min_wal_size"} {
		if _, asked := set[name]; asked && numberOr(major, set, name, least) < least {
			errs = append(errs, fmt.Errorf("parameter %q: must be at least %sMB (two WAL segments)", name, formatNumber(least)))
		}
	}
	return errors.Join(errs...)
}

// minWALSize is the minimum of min_wal_size and max_wal_size, in MiB.
func minWALSize(segmentMiB int) float64 {
	if segmentMiB <= 0 {
		segmentMiB = 16
	}
	return float64(2 * segmentMiB)
}

// numberOr returns a parameter in its own unit, or fallback if it is not set or not a number.
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

// reservedWords are the keywords that SQL accepts as names only in quotes: pg_get_keywords() of categories R and T.
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

// IsReservedWord returns whether clients would have to quote the name of a role or database.
func IsReservedWord(name string) bool { return reservedWords[name] }

// predefinedRoles are predefined roles and the first major version that has them.
var predefinedRoles = map[string]int{
	"pg_read_all_data": 14, "pg_write_all_data": 14, "pg_checkpoint": 15, "pg_use_reserved_connections": 16,
}

// PredefinedRoleSince is the first supported major version with a predefined role.
func PredefinedRoleSince(name string) int { return max(MinMajor, predefinedRoles[name]) }
