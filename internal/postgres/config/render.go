package config

import (
	"errors"
	"strconv"
)

const slotPrefix = "fettle_"

func itoa(n int) string { return strconv.Itoa(n) }

// Render makes the files. The error says which part of the settings is refused and why; a user's parameters are checked
// as by CheckParameters.
func Render(_ Settings) (Files, error) { return nil, errors.ErrUnsupported }

// CheckParameters says what is wrong with the parameters that a user wants for a version: unknown names, values that are
// not of the parameter's type, and what Fettle owns or would not be safe. It names all of them, in order, and what to
// use instead.
func CheckParameters(_ int, _ map[string]string) error { return errors.ErrUnsupported }

// CheckRules says what is wrong with a user's rules.
func CheckRules(_ []Rule) error { return errors.ErrUnsupported }

// NeedsRestart lists which of the parameters that differ between two sets take effect only by a restart.
func NeedsRestart(_ int, _, _ map[string]string) []string { return nil }
