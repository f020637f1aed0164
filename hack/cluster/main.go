// Command cluster runs a local Kubernetes cluster with OLM for development and tests, without Docker.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/fettle-dev/fettle/hack/cluster/internal/cluster"
	"github.com/fettle-dev/fettle/hack/cluster/internal/storage"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := rootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		stop()
		os.Exit(1)
	}
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "cluster",
		Short: "A local Kubernetes cluster with OLM, without Docker",
		Long: `A local Kubernetes cluster with OLM, without Docker.

Its state is in /var/lib/fettle-cluster (or $FETTLE_CLUSTER); "down" deletes it. Built tools and images stay in
~/.cache/fettle (or $FETTLE_CACHE).`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(upCommand(), downCommand(), statusCommand(), loadCommand(),
		linkCommand("disconnect", "Disconnect a node from the other nodes and the control plane", false),
		linkCommand("reconnect", "Reconnect a disconnected node", true),
		storageCommand())
	return root
}

// privileged checks for root, loads the configuration and runs do.
func privileged(do func(*cobra.Command, cluster.Config, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := cluster.RequireRoot(cmd.Name()); err != nil {
			return err
		}
		config, err := cluster.Load()
		if err != nil {
			return err
		}
		return do(cmd, config, args)
	}
}

func upCommand() *cobra.Command {
	var options cluster.Options
	var images string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Create or repair the cluster; you can run it again at any time",
		Args:  cobra.NoArgs,
		RunE: privileged(func(cmd *cobra.Command, config cluster.Config, _ []string) error {
			if value := os.Getenv("NODES"); value != "" && !cmd.Flags().Changed("nodes") {
				var err error
				if options.Nodes, err = strconv.Atoi(value); err != nil {
					return fmt.Errorf("NODES=%s: must be a number", value)
				}
			}
			if images != "all" && images != "cluster" {
				return fmt.Errorf("--images=%s: must be all or cluster", images)
			}
			options.ClusterImages = images == "cluster"
			return config.Up(cmd.Context(), options, cmd.OutOrStdout())
		}),
	}
	cmd.Flags().IntVar(&options.Nodes, "nodes", 0, "minimum number of nodes (default: $NODES, otherwise the current number, otherwise 1)")
	cmd.Flags().StringVar(&images, "images", "all", "stand-in images to build: all, or cluster for only the images of Kubernetes, OLM and the demo")
	return cmd
}

func downCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Delete the cluster and everything that it created, except the cache",
		Args:  cobra.NoArgs,
		RunE: privileged(func(cmd *cobra.Command, config cluster.Config, _ []string) error {
			return config.Down(cmd.Context(), cmd.OutOrStdout())
		}),
	}
}

func statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show daemons and nodes; exits with 1 if one of them failed",
		Args:  cobra.NoArgs,
		RunE: privileged(func(cmd *cobra.Command, config cluster.Config, _ []string) error {
			return config.Status(cmd.Context(), cmd.OutOrStdout())
		}),
	}
}

func loadCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "load IMAGE...",
		Short: "Push images (tar files of docker save, or image names) to the cluster's registry",
		Args:  cobra.MinimumNArgs(1),
		RunE: privileged(func(cmd *cobra.Command, config cluster.Config, args []string) error {
			return config.LoadImages(cmd.Context(), args, cmd.OutOrStdout())
		}),
	}
}

func linkCommand(use, short string, up bool) *cobra.Command {
	return &cobra.Command{
		Use:   use + " NODE",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: privileged(func(cmd *cobra.Command, config cluster.Config, args []string) error {
			return config.SetLink(cmd.Context(), args[0], up)
		}),
	}
}

// storageCommand is the storage daemon, which up starts. It is hidden, because users do not run it.
func storageCommand() *cobra.Command {
	var kubeconfig, dir string
	cmd := &cobra.Command{
		Use:    "storage",
		Short:  "Provision, expand and delete the cluster's volumes",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return storage.Run(cmd.Context(), kubeconfig, dir)
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the API server")
	cmd.Flags().StringVar(&dir, "dir", "", "directory of the volumes")
	return cmd
}
