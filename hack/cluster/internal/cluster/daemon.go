package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/fettle-dev/fettle/hack/cluster/internal/kube"
	"github.com/fettle-dev/fettle/hack/cluster/internal/process"
)

// errExited is the error of a daemon that exited before it was ready.
var errExited = errors.New("the process exited")

// probe checks whether a daemon is ready. The error is the reason why it is not.
type probe func(context.Context) error

// ensure starts the daemon if it is not running and waits until it is ready. A running daemon that does not become ready is
// restarted once. The result reports whether ensure started the daemon.
func ensure(ctx context.Context, s *process.Supervisor, spec process.Spec, ready probe, timeout time.Duration) (bool, error) {
	started, err := s.Ensure(ctx, spec)
	if err != nil {
		return false, err
	}
	firstTimeout := timeout
	if !started {
		firstTimeout = min(timeout, 15*time.Second)
	}
	if err = waitReady(ctx, s, spec.Name, ready, firstTimeout); err == nil {
		return started, nil
	}
	if started || ctx.Err() != nil {
		return started, err
	}
	if err := s.Stop(ctx, spec.Name, 5*time.Second); err != nil {
		return false, err
	}
	if _, err := s.Ensure(ctx, spec); err != nil {
		return false, err
	}
	return true, waitReady(ctx, s, spec.Name, ready, timeout)
}

func waitReady(ctx context.Context, s *process.Supervisor, name string, ready probe, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	start := time.Now()
	var exited bool
	err := kube.Poll(ctx, 100*time.Millisecond, func(ctx context.Context) (bool, error) {
		if exited = !s.State(name).Running; exited {
			cancel()
			return false, errExited
		}
		err := ready(ctx)
		return err == nil, err
	})
	switch {
	case err == nil:
		return nil
	case exited:
		return fmt.Errorf("%s: %w; last lines of %s:\n%s", name, errExited, s.LogFile(name), tail(s.LogFile(name)))
	default:
		return fmt.Errorf("%s is not ready after %s: %w; last lines of %s:\n%s",
			name, time.Since(start).Round(time.Second), err, s.LogFile(name), tail(s.LogFile(name)))
	}
}

// httpProbe expects status 200 from a URL. It does not verify the server's certificate: it reads only the health status and
// sends no data.
func httpProbe(url string, clientCerts ...tls.Certificate) probe {
	client := &http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, Certificates: clientCerts}, //nolint:gosec // see above
	}}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		_, _ = io.Copy(io.Discard, response.Body)
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s returned %s", url, response.Status)
		}
		return nil
	}
}

// startState describes the result of ensure.
func startState(started bool) string {
	if started {
		return "started"
	}
	return "running"
}
