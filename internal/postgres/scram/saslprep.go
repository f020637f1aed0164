package scram

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

//go:embed rfc3454.txt
var rfc3454 string

// rfcTables are the tables of RFC 3454, by name.
var rfcTables = sync.OnceValue(func() map[string]*unicode.RangeTable {
	all := map[string]*unicode.RangeTable{}
	var table *unicode.RangeTable
	for line := range strings.Lines(rfc3454) {
		line, _, _ = strings.Cut(line, "#")
		if name := strings.TrimSpace(line); name != "" && !strings.HasPrefix(line, " ") {
			table = &unicode.RangeTable{}
			all[name] = table
			continue
		}
		for text := range strings.FieldsSeq(line) {
			low, high, found := strings.Cut(text, "-")
			if !found {
				high = low
			}
			table.R32 = append(table.R32, unicode.Range32{Lo: codePoint(low), Hi: codePoint(high), Stride: 1})
		}
	}
	return all
})

func codePoint(text string) uint32 {
	n, err := strconv.ParseUint(text, 16, 32)
	if err != nil {
		panic(fmt.Sprintf("rfc3454.txt: %q is not a code point", text))
	}
	return uint32(n)
}

// saslPrep prepares a password like PostgreSQL and its clients do: SASLprep (RFC 4013), or the unchanged password if
// SASLprep rejects it.
func saslPrep(password string) string {
	if !utf8.ValidString(password) || strings.IndexFunc(password, func(r rune) bool { return r > unicode.MaxASCII }) < 0 {
		return password
	}
	t := rfcTables()
	var mapped []rune
	for _, r := range password {
		switch {
		case unicode.Is(t["C.1.2"], r):
			mapped = append(mapped, ' ')
		case !unicode.Is(t["B.1"], r):
			mapped = append(mapped, r)
		}
	}
	if len(mapped) == 0 || prohibited(t, mapped) {
		return password
	}
	return norm.NFKC.String(string(mapped))
}

// prohibited returns whether SASLprep rejects a text.
func prohibited(t map[string]*unicode.RangeTable, text []rune) bool {
	rightToLeft, leftToRight := false, false
	for _, r := range text {
		if unicode.Is(t["C"], r) || unicode.Is(t["A.1"], r) {
			return true
		}
		rightToLeft = rightToLeft || unicode.Is(t["D.1"], r)
		leftToRight = leftToRight || unicode.Is(t["D.2"], r)
	}
	// Right-to-left text must start and end with a right-to-left character.
	return rightToLeft && (leftToRight || !unicode.Is(t["D.1"], text[0]) || !unicode.Is(t["D.1"], text[len(text)-1]))
}
