package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

const (
	idleConnections = 4
	maxConnections  = 10
	// dialTimeout bounds a new connection, so that one attempt of a request can survive lost packets.
	dialTimeout = time.Second
)

// orders is the table of orders in a database.
type orders struct {
	db *sql.DB
	statements
}

// statements are those in which PostgreSQL and MySQL differ.
type statements struct {
	table string
	// insert stores an order, or counts an attempt at an existing one. Its parameters are the key, product, quantity and total.
	insert string
	// parameter is the placeholder of the parameter of this number, from 1.
	parameter func(number int) string
}

var postgreSQL = statements{
	table: `CREATE TABLE IF NOT EXISTS orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, idempotency_key varchar(64) NOT NULL UNIQUE,
product varchar(64) NOT NULL, quantity int NOT NULL, cents bigint NOT NULL, attempts int NOT NULL DEFAULT 1)`,
	insert: `INSERT INTO orders (idempotency_key, product, quantity, cents) VALUES ($1, $2, $3, $4)
ON CONFLICT (idempotency_key) DO UPDATE SET attempts = orders.attempts + 1`,
	parameter: func(number int) string { return fmt.Sprint("$", number) },
}

var mySQL = statements{
	// The default collation ignores case.
	table: `CREATE TABLE IF NOT EXISTS orders (id bigint AUTO_INCREMENT PRIMARY KEY,
idempotency_key varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL UNIQUE,
product varchar(64) NOT NULL, quantity int NOT NULL, cents bigint NOT NULL, attempts int NOT NULL DEFAULT 1)`,
	insert: `INSERT INTO orders (idempotency_key, product, quantity, cents) VALUES (?, ?, ?, ?)
ON DUPLICATE KEY UPDATE attempts = attempts + 1`,
	parameter: func(int) string { return "?" },
}

// newOrders uses the database of DATABASE_URL or MYSQL_URL. It does not connect. No error has a part of a URL.
func newOrders(getenv func(string) string) (*orders, error) {
	postgresURL, mysqlURL := getenv("DATABASE_URL"), getenv("MYSQL_URL")
	var o *orders
	switch {
	case postgresURL != "":
		config, err := pgx.ParseConfig(postgresURL) // it also reads PGSSLROOTCERT, the CA file for sslmode=verify-full
		if err != nil {
			return nil, errors.New("DATABASE_URL: must be a URI of PostgreSQL; with sslmode=verify-full, PGSSLROOTCERT must name a file with the CA")
		}
		config.ConnectTimeout = dialTimeout
		o = &orders{db: stdlib.OpenDB(*config), statements: postgreSQL}
	case mysqlURL != "":
		config, err := mysqlConfig(mysqlURL)
		if err != nil {
			return nil, err
		}
		connector, err := mysql.NewConnector(config)
		if err != nil {
			return nil, errors.New("MYSQL_URL: must be a URI such as mysql://user:password@host:3306/database")
		}
		o = &orders{db: sql.OpenDB(connector), statements: mySQL}
	default:
		return nil, errors.New("set DATABASE_URL or MYSQL_URL")
	}
	o.db.SetMaxOpenConns(maxConnections)
	o.db.SetMaxIdleConns(idleConnections)
	return o, nil
}

// mysqlConfig parses a URI such as mysql://user:password@host:3306/database.
func mysqlConfig(uri string) (*mysql.Config, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "mysql" || u.Hostname() == "" {
		return nil, errors.New("MYSQL_URL: must be a URI such as mysql://user:password@host:3306/database")
	}
	config := mysql.NewConfig()
	config.Net, config.Addr = "tcp", u.Hostname()+":"+cmp.Or(u.Port(), "3306")
	config.User, config.DBName = u.User.Username(), strings.TrimPrefix(u.Path, "/")
	config.Passwd, _ = u.User.Password()
	config.Timeout = dialTimeout
	config.TLSConfig = "preferred" // encrypted if the server has a certificate, which is usually self-signed
	return config, nil
}

func (o *orders) close() { _ = o.db.Close() }

func (o *orders) createTable(ctx context.Context) error {
	_, err := o.db.ExecContext(ctx, o.table)
	return err
}

func (o *orders) ping(ctx context.Context) error { return o.db.PingContext(ctx) }

// place stores an order once for its key, and returns the stored one after its commit.
//
// An existing order is changed too, since only a commit with a change waits for synchronous standbys: the server may have failed between
// the local commit of the first attempt and its confirmation by a standby.
func (o *orders) place(ctx context.Context, wanted order) (stored order, err error) {
	err = o.attempt(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, o.insert, wanted.Key, wanted.Product, wanted.Quantity, wanted.Cents); err != nil {
			return fmt.Errorf("insert the order: %w", err)
		}
		found, err := o.find(ctx, tx, []string{wanted.Key})
		if err == nil && len(found) != 1 {
			err = fmt.Errorf("%d orders have the key", len(found))
		}
		if err == nil {
			stored = found[0]
		}
		return err
	})
	return stored, err
}

// summary counts all orders, and returns those with the keys.
func (o *orders) summary(ctx context.Context, keys []string) (out summary, err error) {
	err = o.attempt(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM orders").Scan(&out.Count); err != nil {
			return fmt.Errorf("count the orders: %w", err)
		}
		out.Orders, err = o.find(ctx, tx, keys)
		return err
	})
	return out, err
}

// find returns the orders with the keys, in the order of their numbers.
func (o *orders) find(ctx context.Context, tx *sql.Tx, keys []string) ([]order, error) {
	found := []order{}
	if len(keys) == 0 {
		return found, nil
	}
	parameters, arguments := make([]string, len(keys)), make([]any, len(keys))
	for i, key := range keys {
		parameters[i], arguments[i] = o.parameter(i+1), key
	}
	rows, err := tx.QueryContext(ctx, "SELECT id, idempotency_key, product, quantity, cents FROM orders WHERE idempotency_key IN ("+ //nolint:gosec // placeholders
		strings.Join(parameters, ", ")+") ORDER BY id", arguments...)
	if err != nil {
		return nil, fmt.Errorf("find orders: %w", err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err has its error
	for rows.Next() {
		var one order
		if err := rows.Scan(&one.ID, &one.Key, &one.Product, &one.Quantity, &one.Cents); err != nil {
			return nil, fmt.Errorf("find orders: %w", err)
		}
		found = append(found, one)
	}
	return found, rows.Err()
}

// attempt runs do in a transaction, and commits it. After a failure it drops the idle connections: they may lead to a server that was
// replaced, and each would cost a further attempt.
func (o *orders) attempt(ctx context.Context, do func(context.Context, *sql.Tx) error) error {
	err := o.transaction(ctx, do)
	if err != nil {
		o.db.SetMaxIdleConns(0)
		o.db.SetMaxIdleConns(idleConnections)
	}
	return err
}

func (o *orders) transaction(ctx context.Context, do func(context.Context, *sql.Tx) error) error {
	tx, err := o.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin a transaction: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // it has no effect after the commit
	if err := do(ctx, tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}
