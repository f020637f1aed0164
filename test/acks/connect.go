package acks

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// firstPacketTimeout bounds the wait for the answer to the first packet. Packets sent while kube-proxy changes its rules are lost, and
// would be sent again only after a second.
const firstPacketTimeout = 150 * time.Millisecond

// Target is a server, and the user's login. Sessions always use TLS.
type Target struct {
	// Address is host:port.
	Address                  string
	User, Password, Database string
	TLS                      *tls.Config
	// Dial opens the connection; nil means this process's network.
	Dial pgconn.DialFunc
}

// Connect opens a session, bounded by the context.
func (t Target) Connect(ctx context.Context) (*pgx.Conn, error) {
	host, port, err := net.SplitHostPort(t.Address)
	if err != nil {
		return nil, fmt.Errorf("address of PostgreSQL: %w", err)
	}
	config, err := pgx.ParseConfig("sslmode=require host=" + host + " port=" + port)
	if err != nil {
		return nil, fmt.Errorf("address of PostgreSQL: %w", err)
	}
	config.User, config.Password, config.Database = t.User, t.Password, t.Database
	config.TLSConfig, config.Fallbacks, config.ConnectTimeout = t.TLS, nil, 0
	config.DialFunc = (&net.Dialer{Timeout: firstPacketTimeout}).DialContext
	if t.Dial != nil {
		config.DialFunc = t.Dial
	}
	return pgx.ConnectConfig(ctx, config)
}
