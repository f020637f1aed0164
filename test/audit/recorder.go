package audit

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
)

// flushTimeout is how long the API server may take to write a request to its log.
const flushTimeout = 30 * time.Second

// markerAgent is the user agent of the recorder's own requests, which no summary counts.
const markerAgent = "fettle-audit-marker"

// Filter selects requests. Empty fields match all.
type Filter struct {
	User      string
	UserAgent string // prefix
	Namespace string
}

func (f Filter) matches(r Request) bool {
	return (f.User == "" || f.User == r.User) && strings.HasPrefix(r.UserAgent, f.UserAgent) &&
		(f.Namespace == "" || f.Namespace == r.Namespace)
}

// Recorder reads one API server's audit log.
type Recorder struct {
	path   string
	client *http.Client
	marker string // URL
}

// New reads the log at path. The recorder sends marker requests to the API server of this log with config. A logged marker proves that the
// log is complete up to it. Any identity that the log includes will do.
func New(path string, config *rest.Config) (*Recorder, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = markerAgent
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client of the audit recorder: %w", err)
	}
	host, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("client of the audit recorder: %w", err)
	}
	return &Recorder{path: path, client: client, marker: host.JoinPath("/api/v1/namespaces/default").String()}, nil
}

// Mark returns the position after every request that was answered before the call.
func (r *Recorder) Mark(ctx context.Context) (Position, error) {
	from, err := end(r.path)
	if err != nil {
		return Position{}, err
	}
	id, err := r.sendMarker(ctx)
	if err != nil {
		return Position{}, err
	}
	return r.await(ctx, from, id, nil)
}

// Since counts the requests after from that match filter. It waits until all requests that were answered before the call are logged.
func (r *Recorder) Since(ctx context.Context, from Position, filter Filter) (Summary, error) {
	id, err := r.sendMarker(ctx)
	if err != nil {
		return Summary{}, err
	}
	summary := Summary{Filter: filter}
	_, err = r.await(ctx, from, id, func(request Request) {
		if filter.matches(request) {
			summary.add(request)
		}
	})
	return summary, err
}

func (r *Recorder) sendMarker(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.marker, nil)
	if err != nil {
		return "", err
	}
	id := string(uuid.NewUUID())
	request.Header.Set("Audit-ID", id)
	response, err := r.client.Do(request)
	if err != nil {
		return "", fmt.Errorf("mark the audit log: %w", err)
	}
	return id, response.Body.Close()
}

// await visits the requests from a position up to the one with this ID, and waits for that one to be logged.
func (r *Recorder) await(ctx context.Context, from Position, id string, visit func(Request)) (Position, error) {
	deadline := time.Now().Add(flushTimeout)
	for at := from; ; {
		next, found, err := r.read(at, id, visit)
		if err != nil || found {
			return next, err
		}
		at = next
		if time.Now().After(deadline) {
			return at, fmt.Errorf("audit log %s: a request sent %v ago is not in it: is this the log of %s, at level Metadata?",
				r.path, flushTimeout, r.marker)
		}
		select {
		case <-ctx.Done():
			return at, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// read visits the requests that are logged so far, up to the one with this ID.
func (r *Recorder) read(from Position, id string, visit func(Request)) (at Position, found bool, err error) {
	at, err = scan(r.path, from, func(data []byte) error {
		request, counted, err := parse(data)
		switch {
		case err != nil:
			return fmt.Errorf("not a line of an audit log: %.80q: %w", data, err)
		case !counted:
			return nil
		case request.AuditID == id:
			found = true
			return errStop
		case visit != nil && request.UserAgent != markerAgent:
			visit(request)
		}
		return nil
	})
	return at, found, err
}
