// Command image builds, stores and serves container images where there is no container engine and no registry to reach.
//
// `image registry` is the local cluster's registry, `image build` and `image dockerfile` make images of the operator, its bundle and
// its catalog, and `image stand-ins` makes images that take the place of public ones.
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
		os.Exit(1) //nolint:gocritic // there is nothing left to defer
	}
}
