package acks

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Report is the result of comparing acknowledged rows with the rows in the database.
type Report struct {
	// Acknowledged rows, Unknown ones, and rows Found in the database.
	Acknowledged, Unknown, Found int
	// Retried are attempts without an answer that were sent again. Known are retries of rows that were already in the database. Without
	// their keys these rows would be duplicated.
	Retried, Known int
	// Lost were acknowledged and are missing; LostBytes is the distance in the WAL from the row before the first of them to the last.
	Lost      int
	LostBytes int64
	// Duplicated occur more than once.
	Duplicated int
	// Overlapping were acknowledged by one server after another server, which began later, had acknowledged its first row: two primaries at
	// a time.
	Overlapping int
	// Servers acknowledged rows, in the order of their first row.
	Servers []Server
}

// Compare counts the rows of all writers. They should have ended.
func Compare(ctx context.Context, conn *pgx.Conn, writers ...*Writer) (Report, error) {
	var all []Entry
	var out Report
	for _, l := range writers {
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
	result, err := conn.Query(ctx, "SELECT row FROM acks_rows WHERE client = $1", name)
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

// compareRows compares the entries of one client with the number of occurrences of each row.
func compareRows(entries []Entry, there map[int64]int) Report {
	out := Report{Known: countKnown(entries)}
	var before *Entry // the last acknowledged row that was found
	var lost int64    // of the current server
	for i := range entries {
		e := &entries[i]
		switch {
		case !e.Acknowledged && i+1 < len(entries): // the next entry is for the same row
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

// Servers returns the servers that acknowledged rows after since, in the order of their first row.
func (l *Writer) Servers(since time.Time) []Server {
	servers, _ := Overlap(slices.DeleteFunc(l.Entries(), func(e Entry) bool { return !e.Answered.After(since) }))
	return servers
}

// Overlap orders the servers by their first acknowledgement. It counts the rows that a server acknowledged after a later server had begun.
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
