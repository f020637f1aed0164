package agent

import (
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Limits of the ports that everybody may reach. The process that serves them renews the Lease.
const (
	// maxConnections is for all clients of a port, maxEach for those of one address: nobody takes the kubelet's place.
	maxConnections, maxEach = 128, 8
	// maxScrapes is how many scrapes are answered at a time; others are refused.
	maxScrapes = 4
	// scrapePause is how old the metrics may be: the server is asked no more often.
	scrapePause = time.Second
)

// limited closes connections beyond its limits at once, so that what it has accepted is served.
type limited struct {
	net.Listener

	total, each int
	mutex       sync.Mutex
	all         int
	by          map[string]int
}

func limit(l net.Listener, total, each int) net.Listener {
	return &limited{Listener: l, total: total, each: each, by: map[string]int{}}
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // net/http knows it by its kind
		}
		host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
		if err == nil && l.take(host) {
			return &limitedConn{Conn: conn, release: sync.OnceFunc(func() { l.release(host) })}, nil
		}
		_ = conn.Close() // nothing was sent
	}
}

func (l *limited) take(host string) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.all >= l.total || l.by[host] >= l.each {
		return false
	}
	l.all++
	l.by[host]++
	return true
}

func (l *limited) release(host string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.all--
	if l.by[host]--; l.by[host] == 0 {
		delete(l.by, host)
	}
}

type limitedConn struct {
	net.Conn

	release func()
}

func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close() //nolint:wrapcheck // as of the connection itself
}

// paced gathers metrics no more often than once in a pause; who asks meanwhile gets those of the last time.
type paced struct {
	prometheus.Gatherer

	pause time.Duration
	mutex sync.Mutex
	at    time.Time
	last  []*dto.MetricFamily
	err   error
}

func (p *paced) Gather() ([]*dto.MetricFamily, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.at.IsZero() || time.Since(p.at) >= p.pause {
		p.last, p.err = p.Gatherer.Gather()
		p.at = time.Now()
	}
	return p.last, p.err
}
