package postgresql

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// updateAll carries out what is decided for a cluster in which all are outdated, until nothing is left to do. It returns how
// often each was replaced, how often the primary changed, and what the instances are like at the end.
func updateAll(size, primary int) (replaced map[int]int, handovers int, end string) {
	words := slices.Repeat([]string{"R!"}, size)
	words[primary] = "P!"
	pg := wanting(int32(size))
	replaced = map[int]int{}
	for range 50 {
		_, s := next(pg, picture(size, strings.Join(words, " ")))
		switch s.Code {
		case ReplacePod:
			replaced[s.target.ordinal]++
			words[s.target.ordinal] = "R"
			if size == 1 {
				words[0] = "P"
			}
		case RequestSwitchover:
			handovers++
			asks(s.target.name)(pg)
			for i, word := range words {
				words[i] = strings.Replace(word, "P", "R", 1)
			}
			words[s.target.ordinal] = strings.Replace(words[s.target.ordinal], "R", "P", 1)
		case ClearSwitchover:
			pg.Annotations = nil
		}
	}
	return replaced, handovers, strings.Join(words, " ")
}

// TestUpdatesEnd holds that an update ends, replaces each instance once, and hands over once where there is somebody to.
func TestUpdatesEnd(t *testing.T) {
	for size := 1; size <= maxInstances; size++ {
		for primary := range size {
			replaced, handovers, end := updateAll(size, primary)
			want := map[int]int{}
			for i := range size {
				want[i] = 1
			}
			if diff := cmp.Diff(want, replaced); diff != "" || strings.Contains(end, "!") || handovers != min(size-1, 1) {
				t.Errorf("%d instances, number %d primary: %s, %d handovers, replaced (-want +got):\n%s", size, primary, end, handovers, diff)
			}
		}
	}
}
