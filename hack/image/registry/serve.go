package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"
)

// Serve serves over TLS until ctx is done, then waits up to 2 seconds for running requests.
//
// It supports only HTTP/1. Uploads hold a lock while their body is read. With HTTP/2, uploads that wait for the lock would use up the
// flow-control window of the shared connection, and the upload with the lock would block.
func Serve(ctx context.Context, listener net.Listener, certificate tls.Certificate, handler http.Handler) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		Protocols:         new(http.Protocols),
	}
	server.Protocols.SetHTTP1(true)
	drained := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(drained)
		grace, done := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer done()
		if server.Shutdown(grace) != nil {
			_ = server.Close() // an error on shutdown has no consequence
		}
	})
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		cancel()
		return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
	}
	<-drained
	return nil
}
