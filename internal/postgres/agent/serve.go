package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/pki"
	"github.com/fettle-dev/fettle/internal/postgres/walfile"
)

const (
	maxRequest = 1 << 20
	// applyTimeout bounds how long a primary applies one request.
	applyTimeout = 30 * time.Second
)

// peerHandler serves the API of package agentapi. Agents and the operator may read. Only the operator may change something.
func (a *Agent) peerHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+agentapi.PathStatus, agentapi.RequireCommonName(func(w http.ResponseWriter, _ *http.Request) {
		status, err := a.CurrentStatus()
		answer(w, status, err)
	}, pki.Agent, pki.Operator))
	mux.HandleFunc("POST "+agentapi.PathFailsafe, agentapi.RequireCommonName(func(w http.ResponseWriter, r *http.Request) {
		from, ok := decode[agentapi.FailsafeRequest](w, r)
		if ok {
			answer(w, a.Promise(from), nil)
		}
	}, pki.Agent))
	mux.HandleFunc("POST "+agentapi.PathRestart, agentapi.RequireCommonName(func(w http.ResponseWriter, r *http.Request) {
		answer(w, struct{}{}, a.Restart(r.Context()))
	}, pki.Operator))
	mux.HandleFunc("PUT "+agentapi.PathDesired, agentapi.RequireCommonName(func(w http.ResponseWriter, r *http.Request) {
		desired, ok := decode[agentapi.Desired](w, r)
		if !ok {
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), applyTimeout)
		defer cancel()
		result, err := a.ApplyDesired(ctx, desired)
		answer(w, result, err)
	}, pki.Operator))
	return mux
}

func decode[T any](w http.ResponseWriter, r *http.Request) (in T, ok bool) {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&in); err != nil {
		http.Error(w, "the body is not the JSON that is expected here", http.StatusBadRequest)
		return in, false
	}
	return in, true
}

// errNotNow means that the state of the instance does not allow the request.
var errNotNow = errors.New("not now")

func answer(w http.ResponseWriter, out any, err error) {
	switch {
	case errors.Is(err, errNotNow):
		http.Error(w, err.Error(), http.StatusConflict)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // the client may have disconnected
}

func (a *Agent) probeHandler() http.Handler {
	mux := http.NewServeMux()
	for path, check := range map[string]func() error{"/livez": a.Live, "/startupz": a.Started, "/readyz": a.Ready} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			if err := check(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			_, _ = w.Write([]byte("ok\n"))
		})
	}
	return mux
}

// listen serves until the context ends: with files by TLS, otherwise a bounded number of connections. Later failures are logged.
func listen(ctx context.Context, log *slog.Logger, address string, handler http.Handler, files *agentapi.CertFiles) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", address, err)
	}
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      applyTimeout + 5*time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	serve := func() error { return server.Serve(limit(listener, maxConnections, maxEach)) }
	if files != nil {
		server.TLSConfig = files.ServerTLS()
		serve = func() error { return server.ServeTLS(listener, "", "") }
	}
	go func() {
		if err := serve(); err != nil && !errors.Is(err, http.ErrServerClosed) {
			log.Error("HTTP server failed", "address", address, "error", err.Error())
		}
	}()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return nil
}

func (a *Agent) listen() error {
	o := &a.options
	return errors.Join(
		listen(a.ctx, a.log, o.listenOn(o.PeerPort), agentapi.RequireHost(o.name(o.Pod), a.peerHandler()), a.peers.files),
		listen(a.ctx, a.log, o.listenOn(o.ProbePort), a.probeHandler(), nil),
		listen(a.ctx, a.log, o.listenOn(o.MetricsPort), a.metricsHandler(), nil),
		listenSocket(a.ctx, a.log, walfile.Socket(o.Run), walHandler(a.archiver.Archive, a.fetchWAL)),
	)
}

// Limits of the ports that any client may reach. The process that serves them renews the lease.
const (
	// maxConnections is for all clients of a port, maxEach for those of one address, so the kubelet always gets a connection.
	maxConnections, maxEach = 128, 8
	// maxScrapes is how many scrapes are answered at a time. Others are rejected.
	maxScrapes = 4
	// scrapePause is how old the metrics may be. The server is not queried more often.
	scrapePause = time.Second
)

// limitedListener immediately closes connections beyond its limits, so the accepted ones are served.
type limitedListener struct {
	net.Listener

	total, each int
	mutex       sync.Mutex
	all         int
	by          map[string]int
}

func limit(l net.Listener, total, each int) net.Listener {
	return &limitedListener{Listener: l, total: total, each: each, by: map[string]int{}}
}

func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // net/http needs the unwrapped error
		}
		host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
		if err == nil && l.take(host) {
			return &limitedConn{Conn: conn, release: sync.OnceFunc(func() { l.release(host) })}, nil
		}
		_ = conn.Close() // no data was exchanged
	}
}

func (l *limitedListener) take(host string) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.all >= l.total || l.by[host] >= l.each {
		return false
	}
	l.all++
	l.by[host]++
	return true
}

func (l *limitedListener) release(host string) {
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
	return c.Conn.Close() //nolint:wrapcheck // a transparent wrapper
}

// cachedGatherer gathers metrics at most once per pause. Scrapes in between get the previous ones.
type cachedGatherer struct {
	prometheus.Gatherer

	pause time.Duration
	mutex sync.Mutex
	at    time.Time
	last  []*dto.MetricFamily
	err   error
}

func (p *cachedGatherer) Gather() ([]*dto.MetricFamily, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.at.IsZero() || time.Since(p.at) >= p.pause {
		p.last, p.err = p.Gatherer.Gather()
		p.at = time.Now()
	}
	return p.last, p.err
}
