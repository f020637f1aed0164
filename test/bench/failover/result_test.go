package failover

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRecord(t *testing.T) {
	results := []Result{
		{Title: "a", Operator: OperatorUp, Synchronous: true, Gap: 2 * time.Second, Limit: 3 * time.Second, Rows: 10, Changes: 1},
		{Title: "a", Operator: OperatorUp, Synchronous: true, Gap: time.Second, Limit: 3 * time.Second, Rows: 10, Lost: 1, Changes: 2},
		{Title: "a", Operator: OperatorZero, Synchronous: true, Gap: time.Second, Limit: 3 * time.Second, Rows: 5, Duplicated: 2, Overlapping: 3, Errors: 4},
		{Title: "a", Operator: OperatorUp, Gap: 4 * time.Second, Limit: 3 * time.Second},
	}
	want := []string{
		"a synchronous up 2 1.00 s 2.00 s 3.00 s 20 1 0 0 1 0",
		"a synchronous zero 1 1.00 s 1.00 s 3.00 s 5 0 2 3 0 4",
		"a asynchronous up 1 4.00 s 4.00 s 3.00 s 0 0 0 0 0 0",
	}
	var got []string
	for _, row := range record(results).Rows {
		got = append(got, strings.Join(row, " "))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPercentile(t *testing.T) {
	var sorted []time.Duration
	for i := range 25 {
		sorted = append(sorted, time.Duration(i+1))
	}
	for percent, want := range map[int]time.Duration{0: 1, 50: 13, 96: 24, 99: 25, 100: 25} {
		if got := percentile(sorted, percent); got != want {
			t.Errorf("rank %d of 25: %d, want %d", percent, got, want)
		}
	}
	if got := percentile(sorted[:1], 99); got != 1 {
		t.Errorf("rank 99 of one: %d", got)
	}
}

func TestProblems(t *testing.T) {
	good := Result{Row: "node", Synchronous: true, Lossless: true, Gap: time.Second, Limit: time.Second, Changes: 1, Errors: 5, Margin: time.Millisecond}
	if text := good.Problems(); text != "" {
		t.Error(text)
	}
	for want, change := range map[string]func(*Result){
		"no failover":                func(r *Result) { r.Stuck = true },
		"too slow":                   func(r *Result) { r.Gap++ },
		"3 rows lost":                func(r *Result) { r.Lost = 3 },
		"2 rows twice":               func(r *Result) { r.Duplicated = 2 },
		"1 rows acknowledged by two": func(r *Result) { r.Overlapping = 1 },
		"the isolated side acknowledged 1ms after the new primary's first": func(r *Result) { r.Margin = -time.Millisecond },
		"2 changes of the primary": func(r *Result) { r.Changes = 2 },
		"unexpected failover":      func(r *Result) { r.Row, r.Errors = "api", 0 },
		"5 errors":                 func(r *Result) { r.Row, r.Changes = "api", 0 },
	} {
		r := good
		if change(&r); r.Problems() != want {
			t.Errorf("%q, want %q", r.Problems(), want)
		}
	}
	slow, twice := good, good
	slow.Gap, slow.Stuck, twice.Duplicated = time.Hour, true, 1
	if err := broken([]Result{good, slow}); err != nil {
		t.Errorf("slow times alone are an error: %v", err)
	}
	if broken([]Result{good, twice}) == nil {
		t.Error("duplicated rows are no error")
	}
	lossy := good
	lossy.Synchronous, lossy.Lossless, lossy.Lost = false, false, 3
	if text := lossy.Problems(); text != "" {
		t.Errorf("asynchronous: %s", text)
	}
}

func TestStore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results")
	if none, err := load(file, "a"); err != nil || none != nil {
		t.Fatalf("without a file: %v, %v", none, err)
	}
	want := []Result{{Commit: "a", Row: "kill", Gap: 1, Lost: 2}, {Commit: "a", Row: "node", Stuck: true}}
	if err := store(file, want); err != nil {
		t.Fatal(err)
	}
	if _, err := load(file, "b"); err == nil {
		t.Error("results of another commit are added to")
	}
	got, err := load(file, "a")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestValidate(t *testing.T) {
	good := Options{Runs: 1, Operator: OperatorUp, Rows: Rows()}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Options){
		"-runs":     func(o *Options) { o.Runs = 0 },
		"-operator": func(o *Options) { o.Operator = "down" },
		"-rows":     func(o *Options) { o.Rows = []string{"flood"} },
		"-rows: k":  func(o *Options) { o.Rows = []string{"kill=0"} },
	} {
		o := good
		if change(&o); o.Validate() == nil || !strings.HasPrefix(o.Validate().Error(), want) {
			t.Errorf("%v, want %s", o.Validate(), want)
		}
	}
}

func TestRuns(t *testing.T) {
	o := Options{Runs: 3}
	if n := o.runs("kill"); n != 3 {
		t.Errorf("without a selection: %d", n)
	}
	o.Rows = []string{"kill=25", "node"}
	for row, want := range map[string]int{"kill": 25, "node": 3, "cut": 0} {
		if n := o.runs(row); n != want {
			t.Errorf("%s: %d, want %d", row, n, want)
		}
	}
}
