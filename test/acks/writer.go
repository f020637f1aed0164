// Package ledger writes rows into a PostgreSQL as a client does, one after the other, notes what it was told about each, and
// compares that with what is there. A row whose write got no answer is sent again until one comes, under a key by which the server
// knows it: a row that was acknowledged must be there once, however often it was sent, and any other once or not at all.
package acks

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Connect opens a session with the right to write into the ledger's table.
type Connect func(ctx context.Context) (*pgx.Conn, error)

// Options of a ledger. Of the times, those that are zero take the defaults.
type Options struct {
	// Name tells this client's rows from those of others in the same table.
	Name    string
	Connect Connect
	// Pause is the time between an answer and the next row, 2 ms by default.
	Pause time.Duration
	// AnswerTimeout is how long an answer is waited for before the connection is given up, 2 s by default; Dial how long a new
	// connection is, 1 s by default. Retry is the pause after a failure, 10 ms by default.
	AnswerTimeout, DialTimeout, RetryPause time.Duration
}

// Server is who acknowledged a row: an address on a timeline. A server that was promoted again counts as another one.
type Server struct {
	Address  string
	Timeline string
}

// Answer is what a server says of a row that it has.
type Answer struct {
	// Server is who says so, and Position how far its log is, in bytes.
	Server   Server
	Position int64
	// Known says that the row was there before: an attempt without an answer had taken effect.
	Known bool
}

// Entry is what became of a row, or of one of several attempts to write it: all but the last have no answer.
type Entry struct {
	Row int64
	// Sent is when the row was sent, or the connection for it was begun; Answered when the outcome was known.
	Sent, Answered time.Time
	// Acknowledged says that the server has it. Otherwise it is not known whether it has.
	Acknowledged bool
	Answer
	// Err is why it was not acknowledged.
	Err error
}

// Writer is a client that writes.
type Writer struct {
	options Options
	open    func(context.Context) (session, error)
	stop    context.CancelFunc
	ended   chan struct{}

	mutex   sync.Mutex
	entries []Entry
}

// CreateTables makes the tables that all ledgers write into: the rows, without a unique index, so that one could be there twice, and the
// keys of those that are there.
func CreateTables(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `CREATE TABLE IF NOT EXISTS ledger_rows (client text NOT NULL, row bigint NOT NULL);
CREATE TABLE IF NOT EXISTS ledger_keys (client text NOT NULL, row bigint NOT NULL, sent int NOT NULL, PRIMARY KEY (client, row))`)
	return err
}

// insert writes a row unless its key is there, and returns who acknowledges it: a server that takes writes names its timeline by its
// file of the log. A row that is known is counted, since a commit that writes nothing does not wait for the standbys: the first
// attempt may have been committed here alone.
const insert = `WITH key AS (
	INSERT INTO ledger_keys AS known VALUES ($1, $2, 1) ON CONFLICT (client, row) DO UPDATE SET sent = known.sent + 1 RETURNING sent
), added AS (
	INSERT INTO ledger_rows SELECT $1, $2 FROM key WHERE sent = 1
)
SELECT coalesce(host(inet_server_addr()), 'here'), substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8),
	pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint, sent > 1 FROM key`

// session is a connection to the server. Tests have others.
type session interface {
	write(ctx context.Context, client string, row int64) (Answer, error)
	// drop closes it without a word: the other side may not be there to hear it.
	drop()
}

type pgSession struct{ conn *pgx.Conn }

func (s pgSession) write(ctx context.Context, client string, row int64) (a Answer, err error) {
	err = s.conn.QueryRow(ctx, insert, client, row).Scan(&a.Server.Address, &a.Server.Timeline, &a.Position, &a.Known)
	return a, err
}

func (s pgSession) drop() { _ = s.conn.PgConn().Conn().Close() }

// Start begins to write, until the context ends or End is called.
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

// End stops writing and waits for the last answer. It may be called again.
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
		entry := Entry{Row: row, Sent: time.Now()}
		if server == nil {
			server, entry.Err = l.connect(ctx)
		}
		if entry.Err == nil {
			entry.Sent = time.Now()
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.options.AnswerTimeout) // the end is no failure
	defer cancel()
	return server.write(ctx, l.options.Name, row)
}

func drop(s session) {
	if s != nil {
		s.drop()
	}
}

// Entries are all attempts so far, in their order.
func (l *Writer) Entries() []Entry {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.Clone(l.entries)
}
