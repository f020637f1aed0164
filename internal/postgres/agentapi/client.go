package agentapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/election"
	"github.com/fettle-dev/fettle/internal/postgres/pki"
)

const (
	// maxBody limits how much of a response is read.
	maxBody = 1 << 20
	// dialTimeout bounds connecting. The deadline of a call may be shorter.
	dialTimeout = 2 * time.Second
	// dnsDialTimeout bounds connecting by DNS name if the last address is known: cluster DNS may be lost together with a
	// node.
	dnsDialTimeout = 400 * time.Millisecond
)

// Client calls the API of one agent. It is safe for concurrent use. Calls are bounded by their context.
type Client struct {
	base string
	http *http.Client
	// port is the port of the agent.
	port string
	// lastAddress is the IP address and port of the last successful call, or from SetIP.
	lastAddress atomic.Pointer[string]
	// unresolved is true if DNS had no address on the last dial.
	unresolved atomic.Bool
}

// NewClient calls the agent with host in its certificate at address (host:port). It connects on the first call.
func (f *CertFiles) NewClient(host, address string) *Client {
	return newClient(host, address, f.current)
}

// NewClient is for the operator, which has its certificate and the CA (PEM) in memory.
func NewClient(host, address string, pair pki.Pair, ca []byte) (*Client, error) {
	certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		return nil, fmt.Errorf("certificate for %s: %w", host, err)
	}
	roots, err := pki.Pool(ca)
	if err != nil {
		return nil, err
	}
	return newClient(host, address, func() (*tls.Certificate, *x509.CertPool, error) { return &certificate, roots, nil }), nil
}

func newClient(host, address string, current func() (*tls.Certificate, *x509.CertPool, error)) *Client {
	_, port, _ := net.SplitHostPort(address) // without a port each call fails with an error that says so
	c := &Client{base: "https://" + host, port: port}
	c.http = &http.Client{
		Transport: &http.Transport{
			TLSClientConfig:     clientTLS(host, current),
			TLSHandshakeTimeout: dialTimeout,
			// With HTTP/1.1, a timeout closes only the connection of that call, and no call waits for another.
			MaxIdleConns: 2, IdleConnTimeout: 30 * time.Second,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx, address) },
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// dial connects by DNS name, or else to the last known address. The certificate proves the identity of the agent.
func (c *Client) dial(ctx context.Context, address string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 5 * time.Second}
	known, byName := c.lastAddress.Load(), ctx
	if known != nil {
		var cancel context.CancelFunc
		byName, cancel = context.WithTimeout(ctx, dnsDialTimeout)
		defer cancel()
	}
	conn, err := dialer.DialContext(byName, "tcp", address)
	var unresolved *net.DNSError
	c.unresolved.Store(errors.As(err, &unresolved))
	if err == nil || known == nil || ctx.Err() != nil {
		return conn, err
	}
	if conn, failure := dialer.DialContext(ctx, "tcp", *known); failure == nil {
		return conn, nil
	}
	return nil, err
}

// recordAddress stores the address of the agent. An address that now belongs to another agent is dropped.
func (c *Client) recordAddress(address string, code int) {
	if code == http.StatusMisdirectedRequest {
		c.lastAddress.Store(nil)
		c.http.CloseIdleConnections()
	} else if known := c.lastAddress.Load(); known == nil || *known != address {
		c.lastAddress.Store(&address)
	}
}

// Unresolved returns whether DNS had no address for the agent on the last dial.
func (c *Client) Unresolved() bool { return c.unresolved.Load() }

// SetIP sets the agent's address from a source other than DNS. The certificate proves the identity of the agent.
func (c *Client) SetIP(ip string) { c.lastAddress.Store(new(net.JoinHostPort(ip, c.port))) }

// IP is the address of the last successful call, or from SetIP. "" if unknown.
func (c *Client) IP() string {
	known := c.lastAddress.Load()
	if known == nil {
		return ""
	}
	ip, _, _ := net.SplitHostPort(*known) // JoinHostPort made it
	return ip
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Status returns the status of the instance.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return call[Status](ctx, c, http.MethodGet, PathStatus, nil)
}

// Failsafe asks the agent to promise not to acquire the Lease.
func (c *Client) Failsafe(ctx context.Context, from FailsafeRequest) (election.Reply, error) {
	return call[election.Reply](ctx, c, http.MethodPost, PathFailsafe, from)
}

// Restart restarts PostgreSQL, so that parameters that need it take effect. It returns when the restart has begun.
func (c *Client) Restart(ctx context.Context) error {
	_, err := call[struct{}](ctx, c, http.MethodPost, PathRestart, struct{}{})
	return err
}

// ApplyDesired applies roles, databases and extensions on a primary.
func (c *Client) ApplyDesired(ctx context.Context, desired Desired) (Result, error) {
	return call[Result](ctx, c, http.MethodPut, PathDesired, desired)
}

func call[T any](ctx context.Context, c *Client, method, path string, in any) (out T, err error) {
	var body io.Reader
	if in != nil {
		encoded, err := json.Marshal(in)
		if err != nil {
			return out, fmt.Errorf("%s %s: %w", method, path, err)
		}
		body = bytes.NewReader(encoded)
	}
	var address string
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { address = got.Conn.RemoteAddr().String() }})
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return out, err
	}
	if in != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return out, err
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return out, fmt.Errorf("%s %s: %w", method, path, err)
	}
	c.recordAddress(address, response.StatusCode)
	if response.StatusCode != http.StatusOK {
		return out, &StatusError{Code: response.StatusCode, Message: firstLine(content)}
	}
	if err := json.Unmarshal(content, &out); err != nil {
		return out, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return out, nil
}

// StatusError is a response of an agent with an error status.
type StatusError struct {
	Code    int
	Message string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("agent responded with status %d: %s", e.Code, e.Message)
}

func firstLine(in []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(in)), "\n")
	return line[:min(len(line), 200)]
}
