// Package cmd holds the sub-commands of the binary, one file for each.
package cmd

import (
	"context"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
)

// Version of the build, such as v1.2.3; set by the linker for releases.
var Version string

// Execute runs the command line of this process. The first SIGTERM or SIGINT cancels its context; further signals do nothing. The kubelet
// may send SIGTERM again, and an agent that exited then would crash PostgreSQL during its shutdown.
func Execute() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT) //nolint:forbidigo // a process has no caller
	defer stop()
	return New().ExecuteContext(ctx)
}

// New returns the root command. Errors are returned, not printed.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:           "fettle",
		Short:         "An operator that runs whole applications on Kubernetes",
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(new(managerOptions).command(), agentCommand(), backupCommand(), installCommand())
	return root
}

// version falls back to the go command's information: the module's version or the commit.
func version() string {
	if Version != "" {
		return Version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "unknown"
	}
	return info.Main.Version
}
