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

All of it is in /var/lib/fettle-cluster, or in $FETTLE_CLUSTER, and goes with "down". What was built stays in
~/.cache/fettle, or in $FETTLE_CACHE.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(upCommand(), downCommand(), statusCommand(), loadCommand(),
		cableCommand("cut", "Cut a node off from all others and from the control plane", false),
		cableCommand("join", "Join a node that was cut off", true),
		storageCommand())
	return root
}

// privileged runs do with the configuration, as root.
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
		Short: "Bring the cluster up, or repair it; can be run again at any time",
		Args:  cobra.NoArgs,
		RunE: privileged(func(cmd *cobra.Command, config cluster.Config, _ []string) error {
			if value := os.Getenv("NODES"); value != "" && !cmd.Flags().Changed("nodes") {
				var err error
				if options.Nodes, err = strconv.Atoi(value); err != nil {
					return fmt.Errorf("NODES=%s: it must be a number", value)
				}
			}
			if images != "all" && images != "cluster" {
				return fmt.Errorf("--images=%s: it must be all or cluster", images)
			}
			options.ClusterImages = images == "cluster"
			return config.Up(cmd.Context(), options, cmd.OutOrStdout())
		}),
	}
	cmd.Flags().IntVar(&options.Nodes, "nodes", 0, "at least that many nodes (default $NODES, or else as many as there are, or 1)")
	cmd.Flags().StringVar(&images, "images", "all", "stand-in images to make: all, or cluster for those that Kubernetes, OLM and the demo need")
	return cmd
}

func downCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Remove the cluster and all that it has made, except the cache",
		Args:  cobra.NoArgs,
		RunE: privileged(func(cmd *cobra.Command, config cluster.Config, _ []string) error {
			return config.Down(cmd.Context(), cmd.OutOrStdout())
		}),
	}
}

func statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show processes and nodes; ends with 1 when something is wrong",
		Args:  cobra.NoArgs,
		RunE: privileged(func(cmd *cobra.Command, config cluster.Config, _ []string) error {
			return config.Status(cmd.Context(), cmd.OutOrStdout())
		}),
	}
}

func loadCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "load IMAGE...",
		Short: "Put images (tar files of docker save, or names) into the cluster's registry",
		Args:  cobra.MinimumNArgs(1),
		RunE: privileged(func(cmd *cobra.Command, config cluster.Config, args []string) error {
			return config.LoadImages(cmd.Context(), args, cmd.OutOrStdout())
		}),
	}
}

func cableCommand(use, short string, up bool) *cobra.Command {
	return &cobra.Command{
		Use:   use + " NODE",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: privileged(func(cmd *cobra.Command, config cluster.Config, args []string) error {
			return config.SetCable(cmd.Context(), args[0], up)
		}),
	}
}

// storageCommand is the daemon that up starts; nobody types it.
func storageCommand() *cobra.Command {
	var kubeconfig, dir string
	cmd := &cobra.Command{
		Use:    "storage",
		Short:  "Provision, grow and remove the cluster's volumes",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return storage.Run(cmd.Context(), kubeconfig, dir)
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "how to reach the API server")
	cmd.Flags().StringVar(&dir, "dir", "", "where the volumes' folders are made")
	return cmd
}
