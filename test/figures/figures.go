// Package figures writes records of measurements: a table, and how, when and on which commit and machine it was measured. A tool that
// measures writes its record into dist/figures. `make figures` copies the records into docs/figures, which is committed, and hack/docs
// fills the tables of the pages from there. So every measured figure in the docs has a command, a commit and a date.
package figures

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Record is one measurement. hack/docs reads the same fields.
type Record struct {
	Command string `json:"command"`
	// Commit, Date and Machine are set by Write.
	Commit  string `json:"commit"`
	Date    string `json:"date"`
	Machine string `json:"machine"`
	// Conditions are sentences about what a reader must know to judge the figures.
	Conditions []string   `json:"conditions"`
	Columns    []string   `json:"columns"`
	Rows       [][]string `json:"rows"`
}

// Add adds a row: texts and numbers by their formats, such as "%.2f s".
func (r *Record) Add(cells ...string) { r.Rows = append(r.Rows, cells) }

// Write writes the record into the folder, prints its table, and returns the path.
func (r Record) Write(folder, name string) error {
	r.Commit, r.Date, r.Machine = Commit(), time.Now().UTC().Format(time.DateOnly), machine()
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	path := filepath.Join(folder, name+".json")
	fmt.Printf("%s\nrecorded in %s: %s, %s; %s\n", r.table(), path, r.Commit, r.Machine, strings.Join(r.Conditions, " "))
	return os.WriteFile(path, append(data, '\n'), 0o644)
}

func (r Record) table() string {
	var out strings.Builder
	for _, row := range append([][]string{r.Columns}, r.Rows...) {
		fmt.Fprintf(&out, "| %s |\n", strings.Join(row, " | "))
	}
	return out.String()
}

// Commit is the commit of the working tree, with -dirty if a file differs.
func Commit() string {
	output, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(output))
}

func machine() string {
	return fmt.Sprintf("%d cores of an %s, load %s at the end", runtime.NumCPU(), cpuModel(), Load())
}

func cpuModel() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown CPU"
	}
	for line := range strings.Lines(string(data)) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown CPU"
}

// Load is the number of running or waiting processes, averaged over a minute.
func Load() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(data), " ")
	return first
}
