package failover

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fettle-dev/fettle/test/figures"
)

// Result is the result of one run.
type Result struct {
	Command     string `json:"command"`
	Commit      string `json:"commit"`
	Row         string `json:"row"`
	Title       string `json:"title"`
	Operator    string `json:"operator"`
	Synchronous bool   `json:"synchronous"`
	// Lossless means that no acknowledged row may be lost.
	Lossless bool `json:"lossless"`
	Number   int  `json:"number"`
	// Node of the primary.
	Node string `json:"node"`
	// Gap is the longest time without an acknowledged row, or until a new PostgreSQL was Ready; Limit is its maximum.
	Gap   time.Duration `json:"gapNanoseconds"`
	Limit time.Duration `json:"limitNanoseconds"`
	// Rows is the number of acknowledged rows. Lost, Duplicated and Overlapping are as in acks.Report.
	Rows        int `json:"rows"`
	Lost        int `json:"lost"`
	Duplicated  int `json:"duplicated"`
	Overlapping int `json:"overlapping"`
	// Changes of the acknowledging server, and Errors of the client of the Service.
	Changes int `json:"changes"`
	Errors  int `json:"errors"`
	// Margin is the time from the last row that an isolated node acknowledged to the first row of the new primary.
	Margin time.Duration `json:"marginNanoseconds"`
	// HealthyAfter is the time until all instances were ready and streaming again.
	HealthyAfter time.Duration `json:"wholeNanoseconds"`
	// Stuck means that no instance took over in time.
	Stuck bool `json:"stuck"`
}

// Broken names the broken promises about rows; empty if none.
func (r Result) Broken() string {
	var out findings
	out.add(r.Lost > 0 && r.Lossless, "%d rows lost", r.Lost)
	out.add(r.Duplicated > 0, "%d rows twice", r.Duplicated)
	out.add(r.Overlapping > 0, "%d rows acknowledged by two", r.Overlapping)
	out.add(r.Margin < 0, "the isolated side acknowledged %s after the new primary's first", -r.Margin)
	return out.String()
}

// Problems names everything unexpected; empty if none.
func (r Result) Problems() string {
	var out findings
	withoutChange, broken := slices.Contains(withoutFailover, r.Row), r.Broken()
	out.add(r.Stuck, "no failover")
	out.add(r.Gap > r.Limit, "too slow")
	out.add(broken != "", "%s", broken)
	out.add(r.Changes > 1, "%d changes of the primary", r.Changes)
	out.add(withoutChange && r.Changes > 0, "unexpected failover")
	out.add(withoutChange && r.Errors > 0, "%d errors", r.Errors)
	return out.String()
}

// findings are the problems of a run.
type findings []string

func (s *findings) add(wrong bool, format string, args ...any) {
	if wrong {
		*s = append(*s, fmt.Sprintf(format, args...))
	}
}

// String joins them.
func (s findings) String() string { return strings.Join(s, ", ") }

// String is a line of the log.
func (r Result) String() string {
	text := fmt.Sprintf("%s %d, operator %s, primary on %s: %d ms; %d rows, %d lost, %d twice, %d by two, %d changes, %d errors, healthy after %s", r.Row, r.Number, r.Operator,
		cmp.Or(r.Node, "none"), r.Gap.Milliseconds(), r.Rows, r.Lost, r.Duplicated, r.Overlapping, r.Changes, r.Errors, r.HealthyAfter.Round(100*time.Millisecond))
	if r.Margin != 0 {
		text += fmt.Sprintf(", %d ms between the two sides", r.Margin.Milliseconds())
	}
	if amiss := r.Problems(); amiss != "" {
		text += "; PROBLEMS: " + amiss
	}
	return text
}

// store replaces a file with results, one per line.
func store(file string, results []Result) error {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	for _, r := range results {
		if err := encoder.Encode(r); err != nil {
			return err
		}
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}

// load reads a file of results of a commit; a missing file has none. Results of two builds must not be one figure.
func load(file, commit string) ([]Result, error) {
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Result
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		var r Result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", file, len(out)+1, err)
		}
		if r.Commit != commit {
			return nil, fmt.Errorf("-continue: %s has results of commit %s, and this is %s", file, r.Commit, commit)
		}
		out = append(out, r)
	}
	return out, lines.Err()
}

// record has a row per fault, replication mode and state of the operator.
func record(results []Result) figures.Record {
	out := figures.Record{
		Conditions: []string{
			"Three instances ran on three nodes of one machine, with the default times of the Lease.",
			"PostgreSQL 15 runs from a stand-in of the official image, made of Debian's packages.",
		},
		Columns: []string{
			"Fault", "Replication", "Operator", "Runs", "Median", "Longest", "Limit", "Rows", "Lost", "Twice", "By two primaries", "Several new primaries", "Client errors",
		},
	}
	var commands []string
	for _, r := range results {
		if !slices.Contains(commands, r.Command) {
			commands = append(commands, r.Command)
		}
	}
	out.Command = strings.Join(commands, "; ")
	for _, group := range groups(results) {
		out.Add(line(group)...)
	}
	return out
}

// groups returns the runs of each line, in the order of their first run.
func groups(results []Result) [][]Result {
	same := func(a, b Result) bool {
		return a.Title == b.Title && a.Operator == b.Operator && a.Synchronous == b.Synchronous
	}
	var out [][]Result
	for _, r := range results {
		at := slices.IndexFunc(out, func(g []Result) bool { return same(g[0], r) })
		if at < 0 {
			out, at = append(out, nil), len(out)
		}
		out[at] = append(out[at], r)
	}
	return out
}

func line(group []Result) []string {
	first, replication := group[0], "asynchronous"
	if first.Synchronous {
		replication = "synchronous"
	}
	var gaps []time.Duration
	var rows, lost, twice, both, again, failures int
	for _, r := range group {
		gaps = append(gaps, r.Gap)
		rows, lost, twice, both, failures = rows+r.Rows, lost+r.Lost, twice+r.Duplicated, both+r.Overlapping, failures+r.Errors
		if r.Changes > 1 {
			again++
		}
	}
	slices.Sort(gaps)
	cells := []string{first.Title, replication, first.Operator, strconv.Itoa(len(group))}
	for _, gap := range []time.Duration{percentile(gaps, 50), gaps[len(gaps)-1], first.Limit} {
		cells = append(cells, fmt.Sprintf("%.2f s", gap.Seconds()))
	}
	for _, n := range []int{rows, lost, twice, both, again, failures} {
		cells = append(cells, strconv.Itoa(n))
	}
	return cells
}

// percentile is the smallest of the sorted values that is not exceeded by that percentage of them.
func percentile(sorted []time.Duration, percent int) time.Duration {
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}
