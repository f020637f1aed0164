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

// Serve answers over TLS until ctx ends, then gives running requests a moment to finish.
//
// It speaks HTTP/1 only: uploads hold one lock while they are read, and on one HTTP/2 connection those that wait for the lock fill the
// window that the one that has it needs.
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
			_ = server.Close() // there is nobody left to tell
		}
	})
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		cancel()
		return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
	}
	<-drained
	return nil
}
