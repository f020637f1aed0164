package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxValue limits the length of a value, in bytes.
const maxValue = 1024

// check validates a value.
func (p parameter) check(value string) error {
	if err := checkOneLine(value); err != nil {
		return err
	}
	switch p.kind {
	case "bool":
		if !isBool(value) {
			return fmt.Errorf("invalid value %q: use on or off", value)
		}
	case "enum":
		if !slices.ContainsFunc(p.values, func(v string) bool { return strings.EqualFold(v, value) }) && !p.boolEnum(value) {
			return fmt.Errorf("invalid value %q: use one of %s", value, strings.Join(p.values, ", "))
		}
	case "integer", "real":
		return p.checkNumber(value)
	}
	return nil
}

// boolEnum is for parameters like huge_pages and synchronous_commit, which also accept boolean words.
func (p parameter) boolEnum(value string) bool {
	return slices.Contains(p.values, "on") && slices.Contains([]string{"true", "false", "yes", "no", "1", "0"}, strings.ToLower(value))
}

func (p parameter) checkNumber(value string) error {
	n, err := p.number(value)
	if err != nil {
		return err
	}
	if n < p.min || n > p.max {
		unit := ""
		if p.unit != "" {
			unit = ", in units of " + p.unit
		}
		return fmt.Errorf("%s is out of range: use %s to %s%s", value, formatNumber(p.min), formatNumber(p.max), unit)
	}
	return nil
}

// number parses a number with or without a unit, in the parameter's own unit.
func (p parameter) number(value string) (float64, error) {
	text := strings.TrimSpace(value)
	end := strings.LastIndexAny(text, "0123456789.") + 1
	digits, suffix := text[:end], strings.TrimSpace(text[end:])
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || strings.ContainsAny(digits, "xXpP_iI") || math.IsInf(n, 0) || math.IsNaN(n) {
		return 0, fmt.Errorf("%q is not a number", value)
	}
	if suffix != "" {
		if n, err = p.convert(n, suffix); err != nil {
			return 0, fmt.Errorf("%q %w", value, err)
		}
	}
	if p.kind == "integer" {
		n = math.RoundToEven(n) // as PostgreSQL does
	}
	return n, nil
}

// convert converts a number to the parameter's own unit.
func (p parameter) convert(n float64, unit string) (float64, error) {
	if p.unit == "" {
		return 0, errors.New("has a unit, but the parameter has none")
	}
	own, family := unitSize(p.unit)
	size, wanted := unitSize(unit)
	if size == 0 || family != wanted || unit == "8kB" {
		return 0, fmt.Errorf("has an invalid unit: use %s", family)
	}
	return n * size / own, nil
}

const (
	memoryUnits = "B, kB, MB, GB, TB"
	timeUnits   = "us, ms, s, min, h, d"
)

var (
	memorySizes = map[string]float64{"B": 1, "kB": 1 << 10, "8kB": 8 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
	timeSizes   = map[string]float64{"us": 1, "ms": 1e3, "s": 1e6, "min": 60e6, "h": 3600e6, "d": 86400e6}
)

// unitSize is the size of a unit in bytes or microseconds, and the units of its family.
func unitSize(unit string) (size float64, family string) {
	if size, ok := memorySizes[unit]; ok {
		return size, memoryUnits
	}
	if size, ok := timeSizes[unit]; ok {
		return size, timeUnits
	}
	return 0, ""
}

// isBool accepts what PostgreSQL accepts: any unambiguous prefix of the words.
func isBool(value string) bool {
	v := strings.ToLower(value)
	if v == "" || v == "o" {
		return false
	}
	return slices.ContainsFunc([]string{"true", "false", "yes", "no", "on", "off", "1", "0"}, func(word string) bool {
		return strings.HasPrefix(word, v)
	})
}

// checkOneLine rejects texts that cannot be a value in a configuration file.
func checkOneLine(text string) error {
	if len(text) > maxValue {
		return fmt.Errorf("the value has %d bytes: use at most %d", len(text), maxValue)
	}
	if !utf8.ValidString(text) {
		return fmt.Errorf("the value %q is not UTF-8", text)
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 }); i >= 0 {
		return fmt.Errorf("the value %q contains a control character: use one line", text)
	}
	return nil
}

func formatNumber(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
