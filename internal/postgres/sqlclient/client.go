// Package sqlclient queries and administers a running PostgreSQL server through its Unix socket. search_path is pg_catalog
// from the first message on, so that no object created by a user is ever called.
package sqlclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fettle-dev/fettle/internal/postgres/config"
)

// Options say which server to connect to, and as which role.
type Options struct {
	// SocketDir and Port identify the socket. Port defaults to 5432.
	SocketDir string
	Port      int
	// User defaults to config.Superuser, Database to "postgres".
	User, Database string
	// ApplicationName is shown in pg_stat_activity. Defaults to "fettle-agent".
	ApplicationName string
	// LocalCommit sets synchronous_commit to local, so that commits wait for no standby. Use it before the first standby
	// exists, and for heartbeats.
	LocalCommit bool
	// StatementTimeout also bounds each statement on the server. Defaults to 10 s.
	StatementTimeout time.Duration
}

// Client is one connection, opened when it is needed and reopened when it was lost. Calls wait for each other, each bounded
// by its context. Use a separate client for each purpose that must not wait for others, such as the heartbeat.
type Client struct {
	options Options
	// sem is held by the user of the connection.
	sem  chan struct{}
	conn *pgx.Conn
}

// New creates a client without connecting.
func New(o Options) *Client {
	o.User = cmp.Or(o.User, config.Superuser)
	o.Database = cmp.Or(o.Database, "postgres")
	o.ApplicationName = cmp.Or(o.ApplicationName, "fettle-agent")
	o.Port = cmp.Or(o.Port, 5432)
	o.StatementTimeout = cmp.Or(o.StatementTimeout, 10*time.Second)
	return &Client{options: o, sem: make(chan struct{}, 1)}
}

// Close closes the connection. The client can be used again.
func (c *Client) Close(ctx context.Context) {
	select {
	case c.sem <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-c.sem }()
	c.closeConn(ctx)
}

func (c *Client) closeConn(ctx context.Context) {
	if c.conn != nil {
		_ = c.conn.Close(ctx) // the connection is discarded
	}
	c.conn = nil
}

// withConn calls do with the connection, and once more with a new connection if the old one is dead. Everything that this
// package sends can be sent twice.
func (c *Client) withConn(ctx context.Context, do func(*pgx.Conn) error) error {
	select {
	case c.sem <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.sem }()
	reused := c.conn != nil
	err := c.tryWithConn(ctx, do)
	if reused && c.conn == nil && ctx.Err() == nil {
		err = c.tryWithConn(ctx, do)
	}
	return classify(ctx, err, c.conn == nil)
}

func (c *Client) tryWithConn(ctx context.Context, do func(*pgx.Conn) error) error {
	if c.conn == nil {
		conn, err := c.options.connect(ctx)
		if err != nil {
			return err
		}
		c.conn = conn
	}
	err := do(c.conn)
	if c.conn.IsClosed() {
		c.closeConn(ctx)
	}
	return err
}

// queryValue runs a query that returns one value.
func queryValue[T any](ctx context.Context, c *Client, query string) (value T, err error) {
	err = c.withConn(ctx, func(conn *pgx.Conn) error { return conn.QueryRow(ctx, query).Scan(&value) })
	return value, err
}

// noLogging keeps the statements of a superuser out of the server's log, pg_stat_activity, pg_stat_statements and pgaudit,
// for all settings of the cluster. Some statements contain password verifiers. The parameters must be in effect before the
// statement arrives: PostgreSQL evaluates log_statement on arrival, and durations after the transaction. Parameters of
// extensions that are not loaded have no effect.
var noLogging = map[string]string{
	"log_statement": "none", "log_min_duration_statement": "-1", "log_min_duration_sample": "-1", "log_transaction_sample_rate": "0",
	"log_min_error_statement": "panic", "track_activities": "off", "pg_stat_statements.track_utility": "off", "pgaudit.log": "none",
}

// connect uses only the options, nothing from the environment.
func (o Options) connect(ctx context.Context) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig("host=/ port=" + strconv.Itoa(o.Port) + " user=postgres dbname=postgres sslmode=disable passfile=/dev/null")
	if err != nil {
		return nil, fmt.Errorf("configure the connection: %w", err)
	}
	cfg.Host, cfg.User, cfg.Database, cfg.Password, cfg.Fallbacks = o.SocketDir, o.User, o.Database, "", nil
	cfg.RuntimeParams = map[string]string{
		"search_path": "pg_catalog", "application_name": o.ApplicationName, "client_encoding": "UTF8", "datestyle": "ISO",
		"statement_timeout": strconv.FormatInt(o.StatementTimeout.Milliseconds(), 10), "lock_timeout": "0",
		"idle_in_transaction_session_timeout": "60000", "standard_conforming_strings": "on", "default_transaction_read_only": "off",
		"default_transaction_isolation": "read committed", "default_transaction_deferrable": "off", "timezone": "UTC",
	}
	if o.User == config.Superuser {
		maps.Copy(cfg.RuntimeParams, noLogging)
	}
	if o.LocalCommit {
		cfg.RuntimeParams["synchronous_commit"] = "local"
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, errors.Join(errConnect, err)
	}
	return conn, nil
}
