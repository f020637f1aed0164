package agent

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// TestListener_limits checks that connections beyond the limits are closed, that others are not, and that an end makes room.
func TestListener_limits(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed with the test
	if err != nil {
		t.Fatal(err)
	}
	l := limit(inner, 3, 2)
	t.Cleanup(func() { _ = inner.Close() })
	accepted := acceptAll(l)
	dial := func(from string) net.Conn {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := d.DialContext(t.Context(), "tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	served := func(from string) net.Conn {
		t.Helper()
		dial(from)
		select {
		case conn := <-accepted:
			return conn
		case <-time.After(time.Minute):
			t.Fatalf("a connection from %s is not served", from)
			return nil
		}
	}
	refused := func(from string) {
		t.Helper()
		conn := dial(from)
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := conn.Read(make([]byte, 1)); err == nil || isTimeout(err) {
			t.Errorf("a connection from %s is not closed: %v", from, err)
		}
	}
	first, second := served("127.0.0.1"), served("127.0.0.1")
	refused("127.0.0.1") // too many of one
	third := served("127.0.0.2")
	refused("127.0.0.3") // too many of all
	_ = second.Close()
	_ = second.Close() // the second time makes no room
	fourth := served("127.0.0.3")
	refused("127.0.0.2")
	for _, conn := range []net.Conn{first, third, fourth} {
		_ = conn.Close()
	}
	if left := l.(*limitedListener); left.all != 0 || len(left.by) != 0 {
		t.Errorf("%d connections are counted that have ended: %v", left.all, left.by)
	}
}

func acceptAll(l net.Listener) <-chan net.Conn {
	accepted := make(chan net.Conn, 10)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	return accepted
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// TestMetrics_cachedBetweenScrapes checks that the server is asked once however many ask for metrics, and that only some are answered at a time.
func TestMetrics_cachedBetweenScrapes(t *testing.T) {
	asked, entered, answer := 0, make(chan struct{}, 1), make(chan struct{})
	gatherer := &cachedGatherer{pause: time.Hour, Gatherer: prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		asked++
		entered <- struct{}{}
		<-answer
		return nil, nil
	})}
	handler := promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
	codes := make(chan int, maxScrapes+1)
	scrape := func() {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
		codes <- w.Code
	}
	for range maxScrapes + 1 {
		go scrape()
	}
	<-entered
	if code := <-codes; code != http.StatusServiceUnavailable { // the others wait
		t.Errorf("one too many: %d", code)
	}
	close(answer)
	for range maxScrapes {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("a scrape: %d", code)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	gatherer.at = gatherer.at.Add(-2 * gatherer.pause)
	scrape()
	if asked != 2 {
		t.Error("metrics are never new again")
	}
}
