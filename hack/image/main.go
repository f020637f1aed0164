// Command image builds, stores and serves container images without a container engine and without access to public registries.
//
// `image registry` is the local cluster's registry. `image build` and `image dockerfile` build the images of the operator, its bundle
// and its catalog. `image stand-ins` builds replacements of public images.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use:           "image",
		Short:         "Build, store and serve container images without a container engine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(registryCommand(), buildCommand(), dockerfileCommand(), standInsCommand(), rootCommand())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "image: %v\n", err)
		os.Exit(1) //nolint:gocritic // no deferred calls are pending
	}
}
