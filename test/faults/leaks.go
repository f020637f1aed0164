package faults

import (
	"regexp"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"
)

// knownLeak is a goroutine of each watch in controller-runtime's cache that may outlive the manager: it wants to hand over
// an event that nobody takes any more.
const knownLeak = "watch.(*filteredWatch).loop"

// leakSlack is for connections that are kept open.
const leakSlack = 30

// leakedSince waits for connections and watches to end, and returns how many goroutines are left over, and where.
func leakedSince(before int) (leaked int, stacks string) {
	for range 50 {
		if leaked, stacks = goroutines(); leaked <= before+leakSlack {
			return 0, ""
		}
		time.Sleep(100 * time.Millisecond)
	}
	return leaked - before, stacks
}

var stackHeader = regexp.MustCompile(`(?m)^(\d+) @`)

// goroutines counts those that are not known to leak, and returns the stacks that most of them share.
func goroutines() (total int, stacks string) {
	var profile strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return 0, err.Error()
	}
	const shown = 3
	var common []string
	for group := range strings.SplitSeq(profile.String(), "\n\n") {
		header := stackHeader.FindStringSubmatch(group)
		if header == nil || strings.Contains(group, knownLeak) {
			continue
		}
		n, err := strconv.Atoi(header[1])
		if err != nil {
			return 0, err.Error()
		}
		if total += n; len(common) < shown { // the profile begins with the largest group
			common = append(common, group)
		}
	}
	return total, strings.Join(common, "\n\n")
}
