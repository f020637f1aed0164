package faults

import (
	"regexp"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"
)

// knownLeak is a goroutine of each watch in controller-runtime's cache that may outlive the manager: it blocks on an event without a
// receiver.
const knownLeak = "watch.(*filteredWatch).loop"

// leakSlack allows for connections that are kept open.
const leakSlack = 30

// leakedSince waits for connections and watches to end, and returns the number and the stacks of the remaining goroutines.
func leakedSince(before int, patience time.Duration) (leaked int, stacks string) {
	for deadline := time.Now().Add(patience); ; {
		if leaked, stacks = goroutines(); leaked <= before+leakSlack {
			return 0, ""
		}
		if time.Now().After(deadline) {
			return leaked - before, stacks
		}
		time.Sleep(100 * time.Millisecond)
	}
}

var stackHeader = regexp.MustCompile(`(?m)^(\d+) @`)

// goroutines counts the goroutines that are not known to leak, and returns the most frequent stacks.
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
