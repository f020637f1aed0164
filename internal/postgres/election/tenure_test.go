package election

import (
	"testing"
	"time"
)

// An API outage of a day costs no more in a turn of the loop than one of a minute: writes without an answer that say the same are one.
func TestTenure_indeterminateWritesDoNotGrow(t *testing.T) {
	_, in := asPrimary()
	h, l := in.Tenure, in.Lease.Lease
	write := func(at time.Duration, l Lease) { h = h.Begin(at, l).Unknown() }
	for i := range 2_000 {
		l.End.LSN = uint64(i) // a primary goes on to write
		write(now+time.Duration(i)*second, l)
	}
	if len(h.Indeterminate) != 1 || h.Indeterminate[0].Sent != now {
		t.Fatalf("%d unsettled writes, the first of %s", len(h.Indeterminate), h.Indeterminate[0].Sent)
	}
	for _, differs := range []func(l *Lease){
		func(l *Lease) { l.Version = "8" },
		func(l *Lease) { l.Holder = Holder{} },
		func(l *Lease) { l.Instances = l.Instances[:2] },
		func(l *Lease) { l.Sync = []Quorum{quorum("pg-1")} },
	} {
		before, m := len(h.Indeterminate), l
		differs(&m)
		write(now+time.Hour, m)
		if len(h.Indeterminate) != before+1 {
			t.Errorf("a write that differs is not kept: %+v", m)
		}
	}
	if read := h.Read(config().Self, l); len(read.Indeterminate) != len(h.Indeterminate) {
		t.Error("its own record settles a write")
	}
}
