package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// record is a measurement, as test/figures and hack/record.sh write it.
type record struct {
	Command, Commit, Date, Machine string
	Conditions, Columns            []string
	Rows                           [][]string
}

// figuresRegion is a part of a page that is filled from the records in docs/figures: of a name, or of all names that match a pattern.
var figuresRegion = regexp.MustCompile(`(?s)<!-- figures: (\S+) -->\n.*?<!-- end of figures -->`)

// fillFigures writes the tables of measured figures into the pages.
func fillFigures(root string) error {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return err
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		var failure error
		filled := figuresRegion.ReplaceAllStringFunc(string(text), func(region string) string {
			name := figuresRegion.FindStringSubmatch(region)[1]
			content, err := figures(root, name)
			failure = cmp.Or(failure, err)
			return fmt.Sprintf("<!-- figures: %s -->\n\n%s\n<!-- end of figures -->", name, content)
		})
		if failure != nil {
			return fmt.Errorf("%s: %w", page, failure)
		}
		if filled != string(text) {
			if err := os.WriteFile(page, []byte(filled), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// figures renders a record, or a common table of the records that match a pattern.
func figures(root, name string) (string, error) {
	files, err := filepath.Glob(filepath.Join(root, "docs", "figures", name+".json"))
	if err != nil || len(files) == 0 {
		return "", cmp.Or(err, fmt.Errorf("no record docs/figures/%s.json", name))
	}
	var columns []string
	var rows [][]string
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		r := record{}
		if err := json.Unmarshal(raw, &r); err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		if !strings.Contains(name, "*") {
			return table(r.Columns, r.Rows) + "\n" + r.origin(), nil
		}
		columns = append(slices.Clip(r.Columns), "Conditions", "Commit", "Date")
		for _, row := range r.Rows {
			rows = append(rows, append(slices.Clip(row), strings.Join(append([]string{r.Machine + "."}, r.Conditions...), " "), r.Commit, r.Date))
		}
	}
	return table(columns, rows), nil
}

// origin says how, when and on which commit and machine the figures were measured.
func (r record) origin() string {
	var out strings.Builder
	fmt.Fprintf(&out, "Measured on %s at commit %s with %s.\n\n```sh\n%s\n```\n", r.Date, r.Commit, r.Machine, strings.ReplaceAll(r.Command, "; ", "\n"))
	for i, condition := range r.Conditions {
		if i == 0 {
			out.WriteString("\n")
		}
		fmt.Fprintf(&out, "- %s\n", condition)
	}
	return out.String()
}
