// Command voteapp is a vote and result application for the end-to-end tests. It reads what the stock voting application
// reads (OPTION_A, OPTION_B, … of the environment, and any number more of them), and the options.json that a VoteConfig
// publishes, where that is mounted. Votes are kept in memory.
//
//	GET  /         the page on which people vote
//	POST /         vote=a
//	GET  /results  the page that shows the results
//	GET  /healthz  200 while it serves
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// grace is how long requests may take after the process was stopped.
const grace = 5 * time.Second

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "voteapp:", err)
		os.Exit(1)
	}
}

func run() error {
	addr := flag.String("addr", ":8080", "address to listen on")
	folder := flag.String("config", "/etc/vote", "folder in which options.json may be")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	environ := os.Environ()
	server := &http.Server{
		Addr:              *addr,
		Handler:           handler(func() (poll, error) { return load(environ, *folder) }, newBox(maxVoters)),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.ListenAndServe() }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve on %s: %w", *addr, err)
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("stop: %w", err)
	}
	return nil
}
