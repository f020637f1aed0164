// Package acks writes rows into a PostgreSQL as a client does, one after another. It records which rows were acknowledged, and compares
// them with the rows in the database. A row without an answer is sent again until it has one, with a key that identifies it. An
// acknowledged row must be there exactly once, however often it was sent; any other row at most once.
package acks

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Connect opens a session with permission to write into the writers' tables.
type Connect func(ctx context.Context) (*pgx.Conn, error)

// Options of a writer. Zero times take the defaults.
type Options struct {
	// Name distinguishes this client's rows from those of other clients in the same table.
	Name    string
	Connect Connect
	// Pause is the time between an answer and the next row, 2 ms by default.
	Pause time.Duration
	// AnswerTimeout is how long to wait for an answer before the connection is dropped, 2 s by default. DialTimeout bounds a new
	// connection, 1 s by default. RetryPause is the pause after a failure, 10 ms by default.
	AnswerTimeout, DialTimeout, RetryPause time.Duration
}

// Server acknowledged a row: an address on a timeline. A server that was promoted again counts as another one.
type Server struct {
	Address  string
	Timeline string
}

// Answer is a server's acknowledgement of a row.
type Answer struct {
	// Server acknowledged the row; Position is its WAL position in bytes.
	Server   Server
	Position int64
	// Known means that the row was there before: an attempt without an answer had taken effect.
	Known bool
}

// Entry is the result of a row, or of one of several attempts to write it: all but the last have no answer.
type Entry struct {
	Row int64
	// Answered is when the outcome was known.
	Answered time.Time
	// Acknowledged means that the server has it. Otherwise that is unknown.
	Acknowledged bool
	Answer
	// Err is why it was not acknowledged.
	Err error
}

// Writer is a client that writes rows.
type Writer struct {
	options Options
	open    func(context.Context) (session, error)
	stop    context.CancelFunc
	ended   chan struct{}

	mutex   sync.Mutex
	entries []Entry
}

// CreateTables creates the tables of all writers: the rows, without a unique index, so duplicates are possible, and the keys of the rows
// that were written.
func CreateTables(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `CREATE TABLE IF NOT EXISTS acks_rows (client text NOT NULL, row bigint NOT NULL);
CREATE TABLE IF NOT EXISTS acks_keys (client text NOT NULL, row bigint NOT NULL, sent int NOT NULL, PRIMARY KEY (client, row))`)
	return err
}

// insert writes a row unless its key exists, and returns the acknowledging server: a primary names its timeline by its WAL file. A known
// row is counted, because a commit without a write does not wait for the standbys: the first attempt may have been committed only here.
const insert = `WITH key AS (
	INSERT INTO acks_keys AS known VALUES ($1, $2, 1) ON CONFLICT (client, row) DO UPDATE SET sent = known.sent + 1 RETURNING sent
), added AS (
	INSERT INTO acks_rows SELECT $1, $2 FROM key WHERE sent = 1
)
SELECT coalesce(host(inet_server_addr()), 'here'), substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8),
	pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint, sent > 1 FROM key`

// session is a connection to the server. Tests use fakes.
type session interface {
	write(ctx context.Context, client string, row int64) (Answer, error)
	// drop closes it without a message: the other side may not be reachable.
	drop()
}

type pgSession struct{ conn *pgx.Conn }

func (s pgSession) write(ctx context.Context, client string, row int64) (a Answer, err error) {
	err = s.conn.QueryRow(ctx, insert, client, row).Scan(&a.Server.Address, &a.Server.Timeline, &a.Position, &a.Known)
	return a, err
}

func (s pgSession) drop() { _ = s.conn.PgConn().Conn().Close() }

// Start writes until the context ends or End is called.
func Start(ctx context.Context, o Options) *Writer {
	return start(ctx, o, func(ctx context.Context) (session, error) {
		conn, err := o.Connect(ctx)
		if err != nil {
			return nil, err
		}
		return pgSession{conn}, nil
	})
}

func start(ctx context.Context, o Options, open func(context.Context) (session, error)) *Writer {
	for at, value := range map[*time.Duration]time.Duration{
		&o.Pause: 2 * time.Millisecond, &o.AnswerTimeout: 2 * time.Second, &o.DialTimeout: time.Second, &o.RetryPause: 10 * time.Millisecond,
	} {
		if *at == 0 {
			*at = value
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	l := &Writer{options: o, open: open, stop: cancel, ended: make(chan struct{})}
	go l.run(ctx)
	return l
}

// End stops writing and waits for the last answer. It may be called repeatedly.
func (l *Writer) End() {
	l.stop()
	<-l.ended
}

// Name of this client.
func (l *Writer) Name() string { return l.options.Name }

func (l *Writer) run(ctx context.Context) {
	defer close(l.ended)
	var server session
	for row := int64(0); ctx.Err() == nil; {
		entry := Entry{Row: row}
		if server == nil {
			server, entry.Err = l.connect(ctx)
		}
		if entry.Err == nil {
			entry.Answer, entry.Err = l.write(ctx, server, row)
		}
		entry.Answered, entry.Acknowledged = time.Now(), entry.Err == nil
		l.mutex.Lock()
		l.entries = append(l.entries, entry)
		l.mutex.Unlock()
		wait := l.options.Pause
		if entry.Err == nil {
			row++
		} else {
			wait = l.options.RetryPause
			drop(server)
			server = nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	drop(server)
}

func (l *Writer) connect(ctx context.Context) (session, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.options.DialTimeout)
	defer cancel()
	return l.open(ctx)
}

func (l *Writer) write(ctx context.Context, server session, row int64) (Answer, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.options.AnswerTimeout) // the end of the writer is not a failure
	defer cancel()
	return server.write(ctx, l.options.Name, row)
}

func drop(s session) {
	if s != nil {
		s.drop()
	}
}

// Entries returns all attempts so far, in order.
func (l *Writer) Entries() []Entry {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.Clone(l.entries)
}
