package acks

import (
	"slices"
	"time"
)

// Last is when the last row was acknowledged; zero if none was.
func (l *Writer) Last() time.Time {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, e := range slices.Backward(l.entries) {
		if e.Acknowledged {
			return e.Answered
		}
	}
	return time.Time{}
}

// FirstAfter is when the first row after at was acknowledged; zero if none was yet.
func (l *Writer) FirstAfter(at time.Time) time.Time {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, e := range l.entries {
		if e.Acknowledged && e.Answered.After(at) {
			return e.Answered
		}
	}
	return time.Time{}
}

// Failed counts the attempts since then without an answer.
func (l *Writer) Failed(since time.Time) int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	n := 0
	for _, e := range l.entries {
		if !e.Acknowledged && e.Answered.After(since) {
			n++
		}
	}
	return n
}

// Gap is a time without an acknowledged row: from one acknowledgement to the next.
type Gap struct{ From, To Entry }

// Length of the gap.
func (g Gap) Length() time.Duration { return g.To.Answered.Sub(g.From.Answered) }

// Gap returns the longest gap that ended after since; zero if there is none.
func (l *Writer) Gap(since time.Time) Gap {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return longest(l.entries, since)
}

func longest(entries []Entry, since time.Time) Gap {
	var out Gap
	var before *Entry
	for i := range entries {
		e := &entries[i]
		if !e.Acknowledged {
			continue
		}
		if before != nil && e.Answered.After(since) && e.Answered.Sub(before.Answered) > out.Length() {
			out = Gap{From: *before, To: *e}
		}
		before = e
	}
	return out
}
