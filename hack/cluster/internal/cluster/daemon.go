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

// errEnded is the error of a daemon that ended instead of getting ready.
var errEnded = errors.New("it has ended")

// probe asks a daemon whether it is ready. The error says why not.
type probe func(context.Context) error

// ensure has the daemon run and waits until it is ready. One that ran before and does not answer is restarted, once.
// The result says whether it was started.
func ensure(ctx context.Context, s *process.Supervisor, spec process.Spec, ready probe, within time.Duration) (bool, error) {
	started, err := s.Ensure(ctx, spec)
	if err != nil {
		return false, err
	}
	patience := within
	if !started {
		patience = min(within, 15*time.Second)
	}
	if err = await(ctx, s, spec.Name, ready, patience); err == nil {
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
	return true, await(ctx, s, spec.Name, ready, within)
}

func await(ctx context.Context, s *process.Supervisor, name string, ready probe, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	begin := time.Now()
	var ended bool
	err := kube.Poll(ctx, 100*time.Millisecond, func(ctx context.Context) (bool, error) {
		if ended = !s.State(name).Running; ended {
			cancel()
			return false, errEnded
		}
		err := ready(ctx)
		return err == nil, err
	})
	switch {
	case err == nil:
		return nil
	case ended:
		return fmt.Errorf("%s: %w; the end of %s:\n%s", name, errEnded, s.LogFile(name), tail(s.LogFile(name)))
	default:
		return fmt.Errorf("%s is not ready after %s: %w; the end of %s:\n%s",
			name, time.Since(begin).Round(time.Second), err, s.LogFile(name), tail(s.LogFile(name)))
	}
}

// httpProbe wants status 200 from a URL. It does not check the certificate of the server: it asks for health, and
// sends nothing.
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
			return fmt.Errorf("%s answers %s", url, response.Status)
		}
		return nil
	}
}

// verb says what ensure did.
func verb(started bool) string {
	if started {
		return "started"
	}
	return "running"
}
