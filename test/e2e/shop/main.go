// Command shop is the online shop of the end-to-end tests and of `make demo`. One image has both parts.
//
//	shop backend    stores orders in PostgreSQL (DATABASE_URL) or MySQL (MYSQL_URL), and sessions in Valkey or Redis (REDIS_URL, optional)
//	shop frontend   serves the page of the shop, and calls the backend at http://BACKEND_HOST:BACKEND_PORT
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const (
	// startTimeout bounds the wait for the database at the start.
	startTimeout = time.Minute
	// requestTimeout bounds the attempts of one request, attemptTimeout each of them. A failover of the database takes a few seconds.
	requestTimeout, attemptTimeout = 10 * time.Second, 3 * time.Second
	retryPause                     = 100 * time.Millisecond
	// stopTimeout is how long requests may take after the process was stopped.
	stopTimeout = requestTimeout + 5*time.Second
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "shop:", err)
		os.Exit(1)
	}
}

func run() error {
	addr := flag.String("addr", ":8080", "address to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var handler http.Handler
	switch part := flag.Arg(0); part {
	case "backend":
		b, err := newBackend(os.Getenv)
		if err != nil {
			return err
		}
		defer b.orders.close()
		if err := retry(ctx, startTimeout, attemptTimeout, b.orders.createTable); err != nil {
			return fmt.Errorf("create the table of orders: %w", err)
		}
		handler = b.handler()
	case "frontend":
		f, err := newFrontend(os.Getenv)
		if err != nil {
			return err
		}
		handler = f.handler()
	default:
		return fmt.Errorf("unknown part %q: use `shop backend` or `shop frontend`", part)
	}
	return serve(ctx, *addr, handler)
}

// serve serves until the context ends, and then finishes the open requests.
func serve(ctx context.Context, addr string, handler http.Handler) error {
	server := &http.Server{
		Addr:              addr,
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      requestTimeout + 10*time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    32 << 10,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.ListenAndServe() }()
	slog.Info("serving", "address", addr)
	select {
	case err := <-ended:
		return fmt.Errorf("serve on %s: %w", addr, err)
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("stop: %w", err)
	}
	return nil
}

// retry repeats do until it succeeds, the context ends, or limit is over. It returns the last error of do. Each attempt has at most the
// time of attempt.
func retry(ctx context.Context, limit, attempt time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := once(ctx, attempt, do)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryPause):
		}
	}
}

func once(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return do(ctx)
}
