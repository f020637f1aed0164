package postgres

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// link is a TCP proxy between two parts of a cluster that can be cut. During a cut, packets vanish without an error, as in
// a network partition.
type link struct {
	target func() string

	// rate limits the bytes per second. 0 means no limit.
	rate atomic.Int64

	mutex sync.Mutex
	cut   bool
	conns map[net.Conn]bool
	// connected is closed while the link is not cut.
	connected chan struct{}
}

// newLink listens on address and forwards connections to target.
func newLink(t testing.TB, address string, target func() string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	l := &link{target: target, conns: map[net.Conn]bool{}, connected: make(chan struct{})}
	close(l.connected)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go l.serve(conn)
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		l.drop()
	})
	return l
}

// Cut stops all traffic, including that of open connections.
func (l *link) Cut() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if !l.cut {
		l.cut, l.connected = true, make(chan struct{})
	}
}

// Join ends a cut. Open connections continue with pending data, like TCP.
func (l *link) Join() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.cut {
		l.cut = false
		close(l.connected)
	}
}

// drop closes all connections.
func (l *link) drop() {
	l.Join()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for conn := range l.conns {
		_ = conn.Close()
	}
}

func (l *link) wait() {
	l.mutex.Lock()
	joined := l.connected
	l.mutex.Unlock()
	<-joined
}

func (l *link) track(conn net.Conn, on bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if on {
		l.conns[conn] = true
	} else {
		delete(l.conns, conn)
		_ = conn.Close()
	}
}

func (l *link) serve(client net.Conn) {
	l.track(client, true)
	defer l.track(client, false)
	l.wait()
	target := l.target()
	if target == "" {
		return
	}
	server, err := net.DialTimeout("tcp", target, time.Second)
	if err != nil {
		return
	}
	l.track(server, true)
	defer l.track(server, false)
	ended := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
		go func() {
			l.copy(pair[0], pair[1])
			ended <- struct{}{}
		}()
	}
	<-ended
}

// copy forwards in one direction. During a cut it holds data back.
func (l *link) copy(to io.Writer, from io.Reader) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		l.wait()
		if rate := l.rate.Load(); rate > 0 {
			time.Sleep(time.Duration(n) * time.Second / time.Duration(rate))
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
