// Package specs runs a Ginkgo suite as a Go test.
package specs

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
)

// reasonLines are the lines of a failure's message that Run prints.
const reasonLines = 12

// Run runs the suite. At the end it prints the failed specs with the reasons, in the form of Go's own tests. If every spec can run, a
// skipped spec is a failure, unless a focus skipped it.
func Run(t *testing.T, everySpecCanRun bool, description string, args ...any) {
	t.Helper()
	ginkgo.ReportAfterSuite("results", func(report ginkgo.Report) {
		config := report.SuiteConfig
		chosen := len(config.FocusStrings)+len(config.SkipStrings)+len(config.FocusFiles) > 0
		for _, spec := range report.SpecReports {
			switch failure := spec.Failure; {
			case spec.State.Is(types.SpecStateFailureStates):
				reason := strings.Split(strings.TrimSpace(failure.Message), "\n")
				fmt.Printf("--- FAIL: %s (%.2fs)\n    %s:%d: %s\n", spec.FullText(), spec.RunTime.Seconds(),
					filepath.Base(failure.Location.FileName), failure.Location.LineNumber, strings.Join(reason[:min(len(reason), reasonLines)], "\n    "))
			case everySpecCanRun && !chosen && report.SuiteSucceeded && spec.State.Is(types.SpecStateSkipped|types.SpecStatePending):
				ginkgo.Fail(spec.FullText() + " was skipped")
			}
		}
	})
	ginkgo.RunSpecs(t, description, args...)
}
