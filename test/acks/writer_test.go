package acks

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

// acknowledged is a row that was acknowledged at a second.
func acknowledged(row int64, second int, by Server) Entry {
	at := begun.Add(time.Duration(second) * time.Second)
	return Entry{Row: row, Answered: at, Acknowledged: true, Answer: Answer{Server: by, Position: 100 * row}}
}

func unanswered(row int64, second int) Entry {
	e := acknowledged(row, second, Server{})
	e.Acknowledged, e.Err = false, errors.New("no answer")
	return e
}

// known is a row that the server already had.
func known(row int64, second int, by Server) Entry {
	e := acknowledged(row, second, by)
	e.Known = true
	return e
}

func TestCompare(t *testing.T) {
	for name, c := range map[string]struct {
		entries []Entry
		there   map[int64]int
		want    Report
	}{
		"all rows are there": {
			[]Entry{acknowledged(0, 0, first), acknowledged(1, 1, first)}, map[int64]int{0: 1, 1: 1}, Report{Acknowledged: 2, Found: 2},
		},
		"unacknowledged rows may be there": {
			[]Entry{acknowledged(0, 0, first), unanswered(1, 1)}, map[int64]int{0: 1, 1: 1}, Report{Acknowledged: 1, Unknown: 1, Found: 2},
		},
		"or not": {
			[]Entry{acknowledged(0, 0, first), unanswered(1, 1)}, map[int64]int{0: 1}, Report{Acknowledged: 1, Unknown: 1, Found: 1},
		},
		"sent again": {
			[]Entry{unanswered(0, 0), unanswered(0, 1), acknowledged(0, 2, first), unanswered(1, 3), known(1, 4, second)}, map[int64]int{0: 1, 1: 1},
			Report{Acknowledged: 2, Retried: 3, Known: 1, Found: 2},
		},
		"sent again, and duplicated": {
			[]Entry{unanswered(0, 0), acknowledged(0, 1, first)}, map[int64]int{0: 2}, Report{Acknowledged: 1, Retried: 1, Found: 1, Duplicated: 1},
		},
		"the last rows of one primary are lost": {
			[]Entry{acknowledged(0, 0, first), acknowledged(1, 1, first), acknowledged(2, 2, first), unanswered(3, 3), acknowledged(3, 9, second)}, map[int64]int{0: 1, 3: 1},
			Report{Acknowledged: 4, Retried: 1, Found: 2, Lost: 2, LostBytes: 200},
		},
		"lost at the end": {
			[]Entry{acknowledged(0, 0, first), acknowledged(1, 1, first)}, map[int64]int{0: 1}, Report{Acknowledged: 2, Found: 1, Lost: 1, LostBytes: 100},
		},
		"twice": {
			[]Entry{acknowledged(0, 0, first)}, map[int64]int{0: 2}, Report{Acknowledged: 1, Found: 1, Duplicated: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, compareRows(c.entries, c.there)); diff != "" {
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
		"one after the other":               {[]Entry{acknowledged(0, 0, first), acknowledged(1, 1, second), acknowledged(2, 2, second)}, 0},
		"unknown rows belong to no server":  {[]Entry{acknowledged(0, 0, first), acknowledged(1, 1, second), unanswered(2, 2)}, 0},
		"the old primary continues":         {[]Entry{acknowledged(0, 0, first), acknowledged(1, 1, second), acknowledged(2, 2, first), acknowledged(3, 3, first)}, 2},
		"two clients, not in order of time": {[]Entry{acknowledged(0, 0, first), acknowledged(1, 5, first), acknowledged(0, 3, second)}, 1},
		"the same address, promoted again":  {[]Entry{acknowledged(0, 0, first), acknowledged(1, 1, second), acknowledged(2, 2, Server{first.Address, "00000003"})}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if _, got := Overlap(c.entries); got != c.want {
				t.Errorf("%d rows overlap, want %d", got, c.want)
			}
		})
	}
}

func TestTimes(t *testing.T) {
	l := &Writer{entries: []Entry{acknowledged(0, 0, first), acknowledged(1, 10, first), unanswered(2, 11), unanswered(3, 12), acknowledged(4, 15, second), acknowledged(5, 16, second)}}
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

// TestWriter_withoutServer checks that a writer without a server records each attempt, and ends when it is stopped.
func TestWriter_withoutServer(t *testing.T) {
	refused := errors.New("refused")
	tries := make(chan struct{}, 1000)
	l := Start(t.Context(), Options{Name: "x", RetryPause: time.Millisecond, Connect: func(context.Context) (*pgx.Conn, error) {
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

// TestEnd_waitsForLastAnswer checks that End waits for the answer to the row in progress.
func TestEnd_waitsForLastAnswer(t *testing.T) {
	begun, answer := make(chan struct{}), make(chan struct{})
	l := Start(t.Context(), Options{Name: "x", DialTimeout: time.Minute, Connect: func(ctx context.Context) (*pgx.Conn, error) {
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
			t.Error("the row in progress was aborted")
		}
	}
}

// lossyServer is a server that loses every third answer, after the commit.
type lossyServer struct {
	keyless bool // it writes every row, known or not
	writes  int
	there   map[int64]int
}

func (f *lossyServer) write(_ context.Context, _ string, row int64) (Answer, error) {
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

func (f *lossyServer) drop() {}

// TestLostAnswer_isSentAgain checks that a row is sent again after a lost answer, and that a duplicate is found.
func TestLostAnswer_isSentAgain(t *testing.T) {
	for name, keyless := range map[string]bool{"known by its key": false, "applied twice": true} {
		t.Run(name, func(t *testing.T) {
			server := &lossyServer{keyless: keyless, there: map[int64]int{}}
			done := make(chan struct{})
			opened := 0
			l := start(t.Context(), Options{Name: "x", Pause: time.Nanosecond, RetryPause: time.Nanosecond}, func(context.Context) (session, error) {
				if opened++; opened == 5 {
					close(done)
				}
				return server, nil
			})
			<-done
			l.End()
			report := compareRows(l.Entries(), server.there)
			if report.Retried < 4 || report.Known < 3 || report.Lost > 0 || report.Acknowledged+report.Unknown != report.Found {
				t.Errorf("%+v", report)
			}
			// The last attempt may be the one with the lost answer.
			if twice := report.Duplicated; !keyless && twice > 0 || keyless && twice < report.Known {
				t.Errorf("%d rows are duplicated, of %d that were sent again", twice, report.Known)
			}
		})
	}
}
