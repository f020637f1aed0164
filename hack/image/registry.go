package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/fettle-dev/fettle/hack/image/registry"
)

func registryCommand() *cobra.Command {
	var dir, addr, cert, key string
	var verbose bool
	cmd := &cobra.Command{
		Use:   "registry",
		Short: "Serve an OCI registry over TLS, with all of its state in one folder",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger := log.New(io.Discard, "", log.LstdFlags)
			if verbose {
				logger.SetOutput(os.Stderr)
			}
			handler, err := registry.New(dir, logger)
			if err != nil {
				return err
			}
			return serve(cmd.Context(), handler, addr, cert, key)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&dir, "dir", "", "folder of the blobs and manifests")
	flags.StringVar(&addr, "addr", "127.0.0.1:5000", "address to listen on")
	flags.StringVar(&cert, "cert", "", "file of the serving certificate")
	flags.StringVar(&key, "key", "", "file of the certificate's key")
	flags.BoolVar(&verbose, "verbose", false, "log every request")
	require(cmd, "dir", "cert", "key")
	return cmd
}

// serve answers until ctx ends, then lets running requests finish for a moment.
func serve(ctx context.Context, handler http.Handler, addr, cert, key string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", addr, err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if server.Shutdown(grace) != nil {
			server.Close()
		}
	})
	fmt.Fprintf(os.Stderr, "registry: listening on https://%s\n", listener.Addr())
	if err := server.ServeTLS(listener, cert, key); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", addr, err)
	}
	return nil
}

// require marks flags of the command as required. A name that isn't a flag is a mistake of the program.
func require(cmd *cobra.Command, names ...string) {
	for _, n := range names {
		if err := cmd.MarkFlagRequired(n); err != nil {
			panic(err)
		}
	}
}
