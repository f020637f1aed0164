// Package ledger writes rows into a PostgreSQL as a client does, one after the other, notes what it was told about each, and
// compares that with what is there. It never writes a row twice: one that it was told of must be there once, one that it was
// not told of may be there or not.
package ledger

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
	// Patience is how long an answer is waited for before the connection is given up, 2 s by default; Dial how long a new
	// connection is, 1 s by default. Retry is the pause after a failure, 10 ms by default.
	Patience, Dial, Retry time.Duration
}

// Server is who acknowledged a row: an address on a timeline. A server that was promoted again counts as another one.
type Server struct {
	Address  string
	Timeline string
}

// Entry is what became of a row.
type Entry struct {
	Row int64
	// Sent is when the row was sent, or the connection for it was begun; Answered when the outcome was known.
	Sent, Answered time.Time
	// Acknowledged says that the server has it. Otherwise it is not known whether it has.
	Acknowledged bool
	// Server is who acknowledged it, and Position how far its log was then, in bytes.
	Server   Server
	Position int64
	// Err is why it was not acknowledged.
	Err error
}

// Ledger is a client that writes.
type Ledger struct {
	options Options
	stop    context.CancelFunc
	ended   chan struct{}

	mutex   sync.Mutex
	entries []Entry
}

// Table makes the table that all ledgers write into. It has no unique index, so that a row could be there twice.
func Table(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, "CREATE TABLE IF NOT EXISTS ledger_rows (client text NOT NULL, row bigint NOT NULL)")
	return err
}

// insert returns who acknowledges the row: a server that takes writes names its timeline by its file of the log.
const insert = `INSERT INTO ledger_rows VALUES ($1, $2)
RETURNING host(inet_server_addr()), substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint`

// Start begins to write, until the context ends or End is called.
func Start(ctx context.Context, o Options) *Ledger {
	for at, value := range map[*time.Duration]time.Duration{
		&o.Pause: 2 * time.Millisecond, &o.Patience: 2 * time.Second, &o.Dial: time.Second, &o.Retry: 10 * time.Millisecond,
	} {
		if *at == 0 {
			*at = value
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	l := &Ledger{options: o, stop: cancel, ended: make(chan struct{})}
	go l.run(ctx)
	return l
}

// End stops writing and waits for the last answer. It may be called again.
func (l *Ledger) End() {
	l.stop()
	<-l.ended
}

// Name of this client.
func (l *Ledger) Name() string { return l.options.Name }

func (l *Ledger) run(ctx context.Context) {
	defer close(l.ended)
	var conn *pgx.Conn
	for row := int64(0); ctx.Err() == nil; row++ {
		entry := Entry{Row: row, Sent: time.Now()}
		if conn == nil {
			conn, entry.Err = l.connect(ctx)
		}
		if entry.Err == nil {
			entry.Sent = time.Now()
			entry.Err = l.write(ctx, conn, &entry)
		}
		entry.Answered, entry.Acknowledged = time.Now(), entry.Err == nil
		l.mutex.Lock()
		l.entries = append(l.entries, entry)
		l.mutex.Unlock()
		wait := l.options.Pause
		if entry.Err != nil {
			wait = l.options.Retry
			drop(conn)
			conn = nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	drop(conn)
}

func (l *Ledger) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.options.Dial)
	defer cancel()
	return l.options.Connect(ctx)
}

func (l *Ledger) write(ctx context.Context, conn *pgx.Conn, entry *Entry) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.options.Patience) // the end is no failure
	defer cancel()
	return conn.QueryRow(ctx, insert, l.options.Name, entry.Row).Scan(&entry.Server.Address, &entry.Server.Timeline, &entry.Position)
}

// drop closes a connection without a word: the other side may not be there to hear it.
func drop(conn *pgx.Conn) {
	if conn != nil {
		_ = conn.PgConn().Conn().Close()
	}
}

// Entries are all rows so far, in the order in which they were written.
func (l *Ledger) Entries() []Entry {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.Clone(l.entries)
}
