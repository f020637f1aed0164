package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"os"

	"github.com/spf13/cobra"

	"github.com/fettle-dev/fettle/hack/image/registry"
)

func registryCommand() *cobra.Command {
	var dir, addr, cert, key string
	var verbose bool
	cmd := &cobra.Command{
		Use:   "registry",
		Short: "Serve an OCI registry over TLS from one directory",
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
			pair, err := tls.LoadX509KeyPair(cert, key)
			if err != nil {
				return fmt.Errorf("load the server certificate: %w", err)
			}
			listener, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", addr)
			if err != nil {
				return fmt.Errorf("listen on %s: %w", addr, err)
			}
			fmt.Fprintf(os.Stderr, "registry: listening on https://%s\n", listener.Addr())
			return registry.Serve(cmd.Context(), listener, pair, handler)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&dir, "dir", "", "directory of the blobs and manifests")
	flags.StringVar(&addr, "addr", "127.0.0.1:5000", "address to listen on")
	flags.StringVar(&cert, "cert", "", "file of the server certificate")
	flags.StringVar(&key, "key", "", "file of the server key")
	flags.BoolVar(&verbose, "verbose", false, "log every request")
	require(cmd, "dir", "cert", "key")
	return cmd
}

// require marks flags of the command as required. It panics if a flag does not exist.
func require(cmd *cobra.Command, names ...string) {
	for _, n := range names {
		if err := cmd.MarkFlagRequired(n); err != nil {
			panic(err)
		}
	}
}
