// Package specs runs a Ginkgo suite as a Go test.
package specs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
)

// FailuresVariable is the environment variable with the file for the failed specs, since ginkgo -procs hides what its processes print.
const FailuresVariable = "FETTLE_TEST_FAILURES"

// reasonLines are the lines of a failure's message that Run prints.
const reasonLines = 12

// Run runs the suite. At the end it prints the failed specs with the reasons, in the form of Go's own tests. If every spec can run, a
// skipped spec is a failure, unless a focus skipped it.
func Run(t *testing.T, everySpecCanRun bool, description string, args ...any) {
	t.Helper()
	var report types.Report
	ginkgo.ReportAfterSuite("results", func(r ginkgo.Report) { report = r })
	ginkgo.RunSpecs(t, description, args...)
	out := os.Stdout
	if path := os.Getenv(FailuresVariable); path != "" && len(report.SpecReports) > 0 { // one process has the report
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = file.Close() }()
		out = file
	}
	chosen := len(report.SuiteConfig.FocusStrings)+len(report.SuiteConfig.SkipStrings)+len(report.SuiteConfig.FocusFiles) > 0
	for _, spec := range report.SpecReports {
		switch failure := spec.Failure; {
		case spec.State.Is(types.SpecStateFailureStates):
			reason := strings.Split(strings.TrimSpace(failure.Message), "\n")
			_, _ = fmt.Fprintf(out, "--- FAIL: %s (%.2fs)\n    %s:%d: %s\n", spec.FullText(), spec.RunTime.Seconds(), filepath.Base(failure.Location.FileName),
				failure.Location.LineNumber, strings.Join(reason[:min(len(reason), reasonLines)], "\n    "))
		case everySpecCanRun && !chosen && report.SuiteSucceeded && spec.State.Is(types.SpecStateSkipped|types.SpecStatePending):
			_, _ = fmt.Fprintf(out, "--- FAIL: %s\n    was skipped\n", spec.FullText())
			t.Fail()
		}
	}
}
