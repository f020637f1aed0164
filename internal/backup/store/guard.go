package store

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"
)

// Limits of a connection. A store may be slow: only one that moves no byte at all for silence is given up.
const (
	dialTimeout = 15 * time.Second
	silence     = 2 * time.Minute
	idle        = 30 * time.Second
	maxIdle     = 8
)

// addressError reports an address that no store may have.
type addressError struct{ address netip.Addr }

func (e *addressError) Error() string {
	return fmt.Sprintf("%s is an address of this machine, of the cloud's metadata or of the Kubernetes API, not of a store", e.address)
}

// RetryableError and NonRetriable tell the libraries of Amazon and Azure that a repetition is of no use.
func (e *addressError) RetryableError() bool { return false }
func (e *addressError) NonRetriable()        {}

// Addresses of metadata services that are not link-local: Amazon's (IPv6), Alibaba's and Azure's.
var metadataServices = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16"),
}

// nat64 is the well-known prefix under which IPv6-only networks reach IPv4 addresses.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// guard decides which addresses may be dialled.
type guard struct {
	// loopback permits addresses of this machine, for tests.
	loopback bool
	// apiServer is the address of the Kubernetes API.
	apiServer netip.Addr
	// silence is how long a connection may move no byte.
	silence time.Duration
	// routes are addresses to connect to instead of others, for tests.
	routes map[string]string
}

func newGuard(loopback bool) guard {
	apiServer, err := netip.ParseAddr(os.Getenv("KUBERNETES_SERVICE_HOST"))
	if err != nil {
		apiServer = netip.Addr{} // outside of a cluster
	}
	return guard{loopback: loopback, apiServer: apiServer.Unmap(), silence: silence}
}

// check returns an error for an address that no store may have. The author of a Backup chooses the endpoint, and must not reach with it
// what only the node or the operator may reach.
func (g guard) check(address netip.Addr) error {
	address = address.Unmap().WithZone("")
	if nat64.Contains(address) {
		last := address.As16()
		address = netip.AddrFrom4([4]byte(last[12:]))
	}
	if g.loopback && address.IsLoopback() {
		return nil
	}
	if !address.IsGlobalUnicast() || address.IsLoopback() || address == g.apiServer || slices.Contains(metadataServices, address) {
		return &addressError{address: address}
	}
	return nil
}

// control checks the address of a connection after the resolution of its name, so that a name cannot change in between.
func (g guard) control(_, address string, _ syscall.RawConn) error {
	resolved, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address %q: %w", address, err)
	}
	return g.check(resolved.Addr())
}

// client returns a client that follows no redirect, uses no proxy, and connects to permitted addresses only.
func (g guard) client(ca []byte) (*http.Client, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(ca) > 0 {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(ca) {
			return nil, errors.New("caSecretRef: the Secret has no certificate in PEM form")
		}
	}
	dialer := &net.Dialer{Timeout: dialTimeout, Control: g.control}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, cmp.Or(g.routes[address], address))
			if err != nil {
				return nil, err
			}
			return &conn{Conn: c, silence: g.silence}, nil
		},
		TLSClientConfig: trust, TLSHandshakeTimeout: dialTimeout, ForceAttemptHTTP2: true,
		IdleConnTimeout: idle, MaxIdleConnsPerHost: maxIdle, ExpectContinueTimeout: time.Second,
	}
	return &http.Client{
		Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}, nil
}

// conn ends when no byte moves in either direction for silence.
type conn struct {
	net.Conn

	silence time.Duration
}

func (c *conn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.silence)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c *conn) Write(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.silence)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
