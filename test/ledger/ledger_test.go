package ledger

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
)

var (
	begun  = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	first  = Server{"10.0.0.1", "00000001"}
	second = Server{"10.0.0.2", "00000002"}
)

// told is a row that was acknowledged at a second.
func told(row int64, second int, by Server) Entry {
	at := begun.Add(time.Duration(second) * time.Second)
	return Entry{Row: row, Sent: at, Answered: at, Acknowledged: true, Answer: Answer{Server: by, Position: 100 * row}}
}

func untold(row int64, second int) Entry {
	e := told(row, second, Server{})
	e.Acknowledged, e.Err = false, errors.New("no answer")
	return e
}

// again is a row of which the server said that it was there.
func again(row int64, second int, by Server) Entry {
	e := told(row, second, by)
	e.Known = true
	return e
}

func TestCompare(t *testing.T) {
	for name, c := range map[string]struct {
		entries []Entry
		there   map[int64]int
		want    Report
	}{
		"all is there": {
			[]Entry{told(0, 0, first), told(1, 1, first)}, map[int64]int{0: 1, 1: 1}, Report{Acknowledged: 2, There: 2},
		},
		"what nobody was told of may be there": {
			[]Entry{told(0, 0, first), untold(1, 1)}, map[int64]int{0: 1, 1: 1}, Report{Acknowledged: 1, Unknown: 1, There: 2},
		},
		"or not": {
			[]Entry{told(0, 0, first), untold(1, 1)}, map[int64]int{0: 1}, Report{Acknowledged: 1, Unknown: 1, There: 1},
		},
		"sent again": {
			[]Entry{untold(0, 0), untold(0, 1), told(0, 2, first), untold(1, 3), again(1, 4, second)}, map[int64]int{0: 1, 1: 1},
			Report{Acknowledged: 2, Retried: 3, Known: 1, There: 2},
		},
		"sent again, and there twice": {
			[]Entry{untold(0, 0), told(0, 1, first)}, map[int64]int{0: 2}, Report{Acknowledged: 1, Retried: 1, There: 1, Duplicated: 1},
		},
		"the end of one primary is lost": {
			[]Entry{told(0, 0, first), told(1, 1, first), told(2, 2, first), untold(3, 3), told(3, 9, second)}, map[int64]int{0: 1, 3: 1},
			Report{Acknowledged: 4, Retried: 1, There: 2, Lost: 2, LostBytes: 200},
		},
		"lost at the end": {
			[]Entry{told(0, 0, first), told(1, 1, first)}, map[int64]int{0: 1}, Report{Acknowledged: 2, There: 1, Lost: 1, LostBytes: 100},
		},
		"twice": {
			[]Entry{told(0, 0, first)}, map[int64]int{0: 2}, Report{Acknowledged: 1, There: 1, Duplicated: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, compare(c.entries, c.there)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOverlap(t *testing.T) {
	for name, c := range map[string]struct {
		entries []Entry
		want    int
	}{
		"one after the other":               {[]Entry{told(0, 0, first), told(1, 1, second), told(2, 2, second)}, 0},
		"unknown rows are nobody's":         {[]Entry{told(0, 0, first), told(1, 1, second), untold(2, 2)}, 0},
		"the old one goes on":               {[]Entry{told(0, 0, first), told(1, 1, second), told(2, 2, first), told(3, 3, first)}, 2},
		"two clients, not in order of time": {[]Entry{told(0, 0, first), told(1, 5, first), told(0, 3, second)}, 1},
		"the same address, promoted again":  {[]Entry{told(0, 0, first), told(1, 1, second), told(2, 2, Server{first.Address, "00000003"})}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if _, got := Overlap(c.entries); got != c.want {
				t.Errorf("%d rows overlap, want %d", got, c.want)
			}
		})
	}
}

func TestTimes(t *testing.T) {
	l := &Ledger{entries: []Entry{told(0, 0, first), told(1, 10, first), untold(2, 11), untold(3, 12), told(4, 15, second), told(5, 16, second)}}
	at := func(second int) time.Time { return begun.Add(time.Duration(second) * time.Second) }
	for name, c := range map[string]struct{ got, want any }{
		"last":                     {l.Last(), at(16)},
		"first after":              {l.FirstAfter(at(10)), at(15)},
		"none after":               {l.FirstAfter(at(16)), time.Time{}},
		"failed":                   {l.Failed(at(0)), 2},
		"failed later":             {l.Failed(at(11)), 1},
		"longest gap":              {l.Gap(at(0)).Length(), 10 * time.Second},
		"longest that ends later":  {l.Gap(at(10)).Length(), 5 * time.Second},
		"where it ended":           {l.Gap(at(10)).To.Server, second},
		"there is none after that": {l.Gap(at(16)).Length(), time.Duration(0)},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestNobodyAnswers sees that a ledger without a server notes each attempt, and ends when it is told to.
func TestNobodyAnswers(t *testing.T) {
	refused := errors.New("refused")
	tries := make(chan struct{}, 1000)
	l := Start(t.Context(), Options{Name: "x", Retry: time.Millisecond, Connect: func(context.Context) (*pgx.Conn, error) {
		tries <- struct{}{}
		return nil, refused
	}})
	for range 3 {
		<-tries
	}
	l.End()
	l.End()
	entries := l.Entries()
	if len(entries) < 3 || !l.Last().IsZero() {
		t.Fatalf("%d entries, last acknowledged at %s", len(entries), l.Last())
	}
	for i, e := range entries {
		if e.Row != 0 || e.Acknowledged || !errors.Is(e.Err, refused) {
			t.Errorf("entry %d: %+v", i, e)
		}
	}
}

// TestEndIsNoFailure sees that the end waits for the answer to what is under way.
func TestEndIsNoFailure(t *testing.T) {
	begun, answer := make(chan struct{}), make(chan struct{})
	l := Start(t.Context(), Options{Name: "x", Dial: time.Minute, Connect: func(ctx context.Context) (*pgx.Conn, error) {
		close(begun)
		<-answer
		return nil, errors.Join(errors.New("refused"), ctx.Err())
	}})
	<-begun
	l.stop()
	close(answer)
	l.End()
	if len(l.Entries()) != 1 {
		t.Errorf("%d entries, want 1", len(l.Entries()))
	}
	for _, e := range l.Entries() {
		if errors.Is(e.Err, context.Canceled) {
			t.Error("what was under way was broken off")
		}
	}
}

// forgetful is a server whose every third answer gets lost, after the commit.
type forgetful struct {
	keyless bool // it writes every row, known or not
	writes  int
	there   map[int64]int
}

func (f *forgetful) write(_ context.Context, _ string, row int64) (Answer, error) {
	f.writes++
	known := f.there[row] > 0
	if !known || f.keyless {
		f.there[row]++
	}
	if f.writes%3 == 0 {
		return Answer{}, errors.New("connection reset")
	}
	return Answer{Server: first, Known: known}, nil
}

func (f *forgetful) drop() {}

// TestAnswerLost sees that a row is sent again after its answer was lost, and that one that is applied twice is found.
func TestAnswerLost(t *testing.T) {
	for name, keyless := range map[string]bool{"known by its key": false, "applied twice": true} {
		t.Run(name, func(t *testing.T) {
			server := &forgetful{keyless: keyless, there: map[int64]int{}}
			done := make(chan struct{})
			opened := 0
			l := start(t.Context(), Options{Name: "x", Pause: time.Nanosecond, Retry: time.Nanosecond}, func(context.Context) (session, error) {
				if opened++; opened == 5 {
					close(done)
				}
				return server, nil
			})
			<-done
			l.End()
			report := compare(l.Entries(), server.there)
			if report.Retried < 4 || report.Known < 3 || report.Lost > 0 || report.Acknowledged+report.Unknown != report.There {
				t.Errorf("%+v", report)
			}
			// The last attempt may be the one whose answer was lost.
			if twice := report.Duplicated; !keyless && twice > 0 || keyless && twice < report.Known {
				t.Errorf("%d rows are there twice, of %d that were sent again", twice, report.Known)
			}
		})
	}
}
