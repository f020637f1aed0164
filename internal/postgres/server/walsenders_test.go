package server

import (
	"slices"
	"testing"
	"time"
)

// The others are terminated shortly after an awaited one has sent the last record, but not if an awaited one was lost
// before.
func TestRemainingSenders(t *testing.T) {
	senders := WALSenders{Awaited: []int{1, 2}, Lagging: []int{3}, Others: []int{4}}
	all := []int{3, 4, 1, 2}
	type moment struct {
		at   time.Duration
		down bool
		runs []int
		want []int
	}
	const ms = time.Millisecond
	for name, moments := range map[string][]moment{
		"all send it": {
			{0, false, []int{1, 2, 3, 4}, []int{3}}, {5000 * ms, true, []int{1, 2, 4}, []int{3}}, {5005 * ms, true, []int{2, 4}, []int{3}},
			{5204 * ms, true, []int{2, 4}, []int{3}}, {5206 * ms, true, []int{2, 4}, all},
		},
		"one has sent it before it is seen that it was written": {
			{0, false, []int{1, 2, 4}, []int{3}}, {5 * ms, true, []int{2, 4}, []int{3}}, {300 * ms, true, []int{2, 4}, all},
		},
		"one is lost before": {
			{0, false, []int{2, 4}, []int{3}}, {300 * ms, true, []int{2, 4}, []int{3}}, {4000 * ms, true, []int{2, 4}, []int{3}},
			{4001 * ms, true, []int{4}, []int{3}}, {4202 * ms, true, []int{4}, []int{3, 4, 2}},
		},
		"both are lost before": {
			{0, false, []int{4}, []int{3}}, {300 * ms, true, []int{4}, []int{3}}, {9000 * ms, true, []int{4}, []int{3}},
		},
	} {
		s, begun := remainingSenders{WALSenders: senders}, time.Now()
		for _, m := range moments {
			got := s.toTerminate(begun.Add(m.at), func(pid int) bool { return slices.Contains(m.runs, pid) }, func() bool { return m.down })
			if !slices.Equal(got, m.want) {
				t.Errorf("%s, after %s: ends %v, want %v", name, m.at, got, m.want)
			}
		}
	}
}
