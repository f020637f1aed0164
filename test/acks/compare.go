package acks

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Report is what was found when what clients were told was compared with what is there.
type Report struct {
	// Acknowledged rows, Unknown ones, and those that are There.
	Acknowledged, Unknown, Found int
	// Retried are attempts that got no answer and were made again; Known are rows that were there already when one was: had the
	// server not known them, they would be there twice.
	Retried, Known int
	// Lost were acknowledged and are not there; LostBytes is how far apart in the log the first and the last of them are,
	// with the row before them.
	Lost      int
	LostBytes int64
	// Duplicated are there more than once.
	Duplicated int
	// Overlapping were acknowledged by a server after another one had acknowledged its first, which was later than the
	// first of that server: two primaries at a time.
	Overlapping int
	// Servers acknowledged rows, in the order of the first of each.
	Servers []Server
}

// Compare counts the rows of all ledgers. They should have ended.
func Compare(ctx context.Context, conn *pgx.Conn, ledgers ...*Writer) (Report, error) {
	var all []Entry
	var out Report
	for _, l := range ledgers {
		there, err := rows(ctx, conn, l.Name())
		if err != nil {
			return out, err
		}
		entries := l.Entries()
		out.add(compareRows(entries, there))
		all = append(all, entries...)
	}
	out.Servers, out.Overlapping = Overlap(all)
	return out, nil
}

func rows(ctx context.Context, conn *pgx.Conn, name string) (map[int64]int, error) {
	result, err := conn.Query(ctx, "SELECT row FROM ledger_rows WHERE client = $1", name)
	if err != nil {
		return nil, fmt.Errorf("rows of %s: %w", name, err)
	}
	numbers, err := pgx.CollectRows(result, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("rows of %s: %w", name, err)
	}
	there := map[int64]int{}
	for _, n := range numbers {
		there[n]++
	}
	return there, nil
}

func (r *Report) add(o Report) {
	r.Acknowledged += o.Acknowledged
	r.Unknown += o.Unknown
	r.Found += o.Found
	r.Retried += o.Retried
	r.Known += o.Known
	r.Lost += o.Lost
	r.LostBytes += o.LostBytes
	r.Duplicated += o.Duplicated
}

// compareRows holds what one client was told against how often each row is there.
func compareRows(entries []Entry, there map[int64]int) Report {
	out := Report{Known: countKnown(entries)}
	var before *Entry // the last acknowledged row that is there
	var lost int64    // of the server that is looked at
	for i := range entries {
		e := &entries[i]
		switch {
		case !e.Acknowledged && i+1 < len(entries): // the next one is of the same row
			out.Retried++
		case !e.Acknowledged:
			out.Unknown++
		case there[e.Row] > 0:
			out.Acknowledged++
			out.LostBytes += lost
			before, lost = e, 0
		default:
			out.Acknowledged++
			out.Lost++
			if before != nil && before.Server == e.Server {
				lost = e.Position - before.Position
			}
		}
	}
	out.LostBytes += lost
	for _, n := range there {
		out.Found++
		if n > 1 {
			out.Duplicated++
		}
	}
	return out
}

func countKnown(entries []Entry) (n int) {
	for _, e := range entries {
		if e.Known {
			n++
		}
	}
	return n
}

// Servers that acknowledged rows after since, in the order of the first of each.
func (l *Writer) Servers(since time.Time) []Server {
	servers, _ := Overlap(slices.DeleteFunc(l.Entries(), func(e Entry) bool { return !e.Answered.After(since) }))
	return servers
}

// Overlap orders the servers by their first acknowledgement, and counts those rows that one of them acknowledged after a
// later one had begun.
func Overlap(entries []Entry) (servers []Server, overlapping int) {
	acknowledged := slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return !e.Acknowledged })
	slices.SortStableFunc(acknowledged, func(a, b Entry) int {
		return cmp.Or(a.Answered.Compare(b.Answered), cmp.Compare(a.Server.Timeline, b.Server.Timeline))
	})
	for _, e := range acknowledged {
		switch at := slices.Index(servers, e.Server); at {
		case -1:
			servers = append(servers, e.Server)
		case len(servers) - 1:
		default:
			overlapping++
		}
	}
	return servers, overlapping
}
