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

// firstPacketTimeout is how long the first packet may take to be answered. What is sent while kube-proxy changes its rules gets lost, and
// would only be sent again after a second.
const firstPacketTimeout = 150 * time.Millisecond

// Target is a server, and who one is there. Sessions are always over TLS.
type Target struct {
	// Address is host:port.
	Address                  string
	User, Password, Database string
	TLS                      *tls.Config
	// Dial opens the connection; nil for that of this process's network.
	Dial pgconn.DialFunc
}

// Connect opens a session. The context bounds it.
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
