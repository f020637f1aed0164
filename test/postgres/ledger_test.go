package postgres

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fettle-dev/fettle/internal/postgres/peer"
)

const (
	// reconnect is how long a client waits before it tries again.
	reconnect = 10 * time.Millisecond
	// patience is how long a client waits for an answer before it gives its connection up.
	patience = 2 * time.Second
)

// ledger is a client that writes rows which nobody else writes, one after the other, and notes each that was acknowledged.
// It never writes a row twice, so a row that it was not told about may be there or not; one that it was told about must be.
type ledger struct {
	name    string
	connect func(ctx context.Context) (*pgx.Conn, error)
	stop    context.CancelFunc
	ended   chan struct{}

	mutex sync.Mutex
	acks  []ack
	// failures are when something went wrong.
	failures []time.Time
}

// ack is a row that the server said it has.
type ack struct {
	row int
	at  time.Time
}

// role is who the ledgers are in the database; pg_hba lets it in by its certificate.
const role = "ledger"

// prepareLedger makes the role and the table.
func (c *cluster) prepareLedger() {
	c.t.Helper()
	leader := c.leader()
	if leader == nil {
		c.t.Fatal("no primary")
	}
	operator := leader.ask()
	defer operator.Close()
	desired := peer.Desired{Roles: []peer.DesiredRole{{Name: role, Login: true}}, Databases: []peer.DesiredDatabase{{Name: role, Owner: role}}}
	for range 2 { // it can be said again
		result, err := operator.Desired(c.t.Context(), desired)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, item := range result.Items {
			if item.Error != "" {
				c.t.Fatalf("%s %s: %s", item.Kind, item.Name, item.Error)
			}
		}
	}
	conn, err := c.connect(c.t.Context(), c.serviceAddress())
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close(c.t.Context())
	if _, err := conn.Exec(c.t.Context(), "CREATE TABLE rows (client text, row bigint, PRIMARY KEY (client, row))"); err != nil {
		c.t.Fatal(err)
	}
}

// connect opens a session as the ledger's role.
func (c *cluster) connect(ctx context.Context, address string) (*pgx.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	config, err := pgx.ParseConfig("host=" + host + " port=" + port + " user=" + role + " dbname=" + role + " sslmode=require connect_timeout=1")
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.authority.Certificate)
	pair, err := c.authority.Client(role, time.Now())
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		return nil, err
	}
	config.TLSConfig = &tls.Config{RootCAs: roots, ServerName: "localhost", Certificates: []tls.Certificate{certificate}}
	config.Fallbacks = nil
	return pgx.ConnectConfig(ctx, config)
}

// newLedger begins to write through an address, by default the Service's.
func (c *cluster) newLedger(name, address string) *ledger {
	ctx, cancel := context.WithCancel(context.Background())
	l := &ledger{name: name, stop: cancel, ended: make(chan struct{})}
	if address == "" {
		address = c.serviceAddress()
	}
	l.connect = func(ctx context.Context) (*pgx.Conn, error) { return c.connect(ctx, address) }
	go l.run(ctx)
	c.t.Cleanup(l.end)
	return l
}

func (l *ledger) end() {
	l.stop()
	<-l.ended
}

func (l *ledger) run(ctx context.Context) {
	defer close(l.ended)
	var conn *pgx.Conn
	for row := 0; ctx.Err() == nil; row++ {
		each, cancel := context.WithTimeout(ctx, patience)
		var err error
		if conn == nil {
			conn, err = l.connect(each)
		}
		if err == nil {
			_, err = conn.Exec(each, "INSERT INTO rows VALUES ($1, $2)", l.name, row)
		}
		cancel()
		at := time.Now()
		l.mutex.Lock()
		if err == nil {
			l.acks = append(l.acks, ack{row, at})
		} else {
			l.failures = append(l.failures, at)
		}
		l.mutex.Unlock()
		if err != nil {
			if conn != nil {
				_ = conn.PgConn().Conn().Close()
				conn = nil
			}
			time.Sleep(reconnect)
		} else {
			time.Sleep(2 * time.Millisecond)
		}
	}
	if conn != nil {
		_ = conn.Close(context.Background())
	}
}

// last is when a row was acknowledged last.
func (l *ledger) last() time.Time {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(l.acks) == 0 {
		return time.Time{}
	}
	return l.acks[len(l.acks)-1].at
}

// firstAfter is when a row was first acknowledged after at; zero if none was yet.
func (l *ledger) firstAfter(at time.Time) time.Time {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, a := range l.acks {
		if a.at.After(at) {
			return a.at
		}
	}
	return time.Time{}
}

// gap is the longest time between two acknowledged rows since then.
func (l *ledger) gap(since time.Time) time.Duration {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	var longest time.Duration
	for i := 1; i < len(l.acks); i++ {
		if l.acks[i].at.After(since) {
			longest = max(longest, l.acks[i].at.Sub(l.acks[i-1].at))
		}
	}
	return longest
}

// longestGap is when the longest time without an acknowledged row began.
func (l *ledger) longestGap() time.Time {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	var longest time.Duration
	var begun time.Time
	for i := 1; i < len(l.acks); i++ {
		if gap := l.acks[i].at.Sub(l.acks[i-1].at); gap > longest {
			longest, begun = gap, l.acks[i-1].at
		}
	}
	return begun
}

// failed counts what went wrong since then.
func (l *ledger) failed(since time.Time) int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return len(l.failures) - slices.IndexFunc(append(slices.Clone(l.failures), time.Now()), func(at time.Time) bool { return at.After(since) })
}

// flows waits until rows are acknowledged again after at.
func (c *cluster) flows(l *ledger, at time.Time) {
	c.t.Helper()
	c.eventually("writes through the Service", time.Minute, func() bool { return !l.firstAfter(at).IsZero() })
}

// audit compares what was acknowledged with what is there: rows that are lost.
func (c *cluster) audit(t testing.TB, ledgers ...*ledger) (lost int) {
	t.Helper()
	var conn *pgx.Conn
	c.eventually("a connection to count the rows", time.Minute, func() (ok bool) {
		var err error
		conn, err = c.connect(t.Context(), c.serviceAddress())
		return err == nil
	})
	defer conn.Close(t.Context())
	for _, l := range ledgers {
		rows, err := conn.Query(t.Context(), "SELECT row::text FROM rows WHERE client = $1", l.name)
		if err != nil {
			t.Fatal(err)
		}
		texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		there := map[int]bool{}
		for _, text := range texts {
			n, _ := strconv.Atoi(text)
			if there[n] {
				t.Errorf("row %d of %s is there twice", n, l.name)
			}
			there[n] = true
		}
		l.mutex.Lock()
		for _, a := range l.acks {
			if !there[a.row] {
				lost++
			}
		}
		t.Logf("%s: %d acknowledged, %d there, %d failures", l.name, len(l.acks), len(there), len(l.failures))
		l.mutex.Unlock()
	}
	return lost
}
