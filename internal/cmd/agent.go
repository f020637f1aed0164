package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/fettle-dev/fettle/internal/postgres/agent"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/internal/postgres/walfile"
)

// agentOptions are the flags of the agent. The environment of the pod names the instance.
type agentOptions struct {
	agent.Options

	debug bool
}

// agentCommand runs one PostgreSQL of a cluster: it is the first process of the pod.
func agentCommand() *cobra.Command {
	o := &agentOptions{}
	c := &cobra.Command{
		Use:   "agent",
		Short: "Run one instance of a PostgreSQL, in its pod",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.run(c)
		},
	}
	o.addFlags(c.Flags())
	return c
}

func (o *agentOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Volume, "volume", "/data", "folder of the data's volume")
	flags.StringVar(&o.Run, "run-dir", "/run/fettle", "folder for sockets and rendered files")
	flags.StringVar(&o.TLS, "tls-dir", "/etc/fettle/tls", "folder with the certificates: server/ and replication/")
	flags.StringVar(&o.Source, "source-dir", "/etc/fettle/source", "folder with the credentials of the server to import data from")
	flags.StringVar(&o.Bind, "bind-address", "", "address to listen on; all by default")
	flags.IntVar(&o.PostgresPort, "postgres-port", 5432, "port of PostgreSQL, of all instances")
	flags.IntVar(&o.PeerPort, "peer-port", agentapi.Port, "port of the agents, of all instances")
	flags.IntVar(&o.ProbePort, "probe-port", 8080, "port of the probes")
	flags.IntVar(&o.MetricsPort, "metrics-port", 9187, "port of the metrics")
	flags.StringVar(&o.PeerHost, "peer-host", "",
		"host of an instance, with {pod} or {ordinal} as a variable; by default its name in the cluster's DNS")
	flags.BoolVar(&o.debug, "debug", false, "log every decision")
}

func (o *agentOptions) run(c *cobra.Command) error {
	o.Cluster, o.Namespace = os.Getenv("CLUSTER_NAME"), os.Getenv("POD_NAMESPACE")
	o.Pod, o.PodUID = os.Getenv("POD_NAME"), os.Getenv("POD_UID")
	limit, err := strconv.ParseInt(cmp.Or(os.Getenv("MEMORY_LIMIT"), "0"), 10, 64)
	if err != nil {
		return fmt.Errorf("MEMORY_LIMIT is no number of bytes: %w", err)
	}
	o.MemoryLimit, o.Output = limit, c.OutOrStdout()
	level := slog.LevelInfo
	if o.debug {
		level = slog.LevelDebug
	}
	o.Log = agent.NewLogger(o.Output, level)
	klog.SetSlogLogger(agent.NewLogger(o.Output, slog.LevelWarn))
	if _, o.WALProgram, err = programs(); err != nil {
		return err
	}
	if o.Kube, err = ctrl.GetConfig(); err != nil {
		return fmt.Errorf("find a cluster (KUBECONFIG or the pod's ServiceAccount): %w", err)
	}
	life, end := context.WithCancel(context.WithoutCancel(c.Context()))
	defer end()
	go func() {
		if err := server.Reap(life); err != nil && life.Err() == nil {
			o.Log.Error("failed to reap child processes", "error", err.Error())
		}
	}()
	return agent.Run(c.Context(), o.Options)
}

// programs are the paths of this program and of fettle-wal. Without the latter, PostgreSQL would fill its volume with WAL.
func programs() (own, wal string, err error) {
	if own, err = os.Executable(); err != nil {
		return "", "", fmt.Errorf("find this program: %w", err)
	}
	wal = filepath.Join(filepath.Dir(own), walfile.Program)
	if _, err := os.Stat(wal); err != nil {
		return "", "", fmt.Errorf("%s must be in the folder of %s: build it from cmd/fettle-wal: %w", walfile.Program, own, err)
	}
	return own, wal, nil
}

// installCommand copies this program and fettle-wal into a folder, from which another container of the pod runs them.
func installCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "install DIR",
		Short: "Copy this program and fettle-wal into a folder",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			own, wal, err := programs()
			if err != nil {
				return err
			}
			return errors.Join(copyProgram(own, filepath.Join(args[0], "fettle")), copyProgram(wal, filepath.Join(args[0], walfile.Program)))
		},
	}
}

// copyProgram copies a program atomically.
func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("install: %w", err)
	}
	defer in.Close() //nolint:errcheck // it is only read
	out, err := os.OpenFile(to+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return fmt.Errorf("install: %w", err)
	}
	_, err = io.Copy(out, in)
	if closing := out.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(to+".new", to)
	}
	if err != nil {
		return fmt.Errorf("install into %s: %w", filepath.Dir(to), err)
	}
	return nil
}
