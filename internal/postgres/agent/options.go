package agent

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/fettle-dev/fettle/internal/backup/store"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/election"
)

// Options are the configuration of the agent's process.
type Options struct {
	// Cluster is the name of the PostgreSQL, of its Lease and of the ServiceAccount.
	Cluster, Namespace string
	// Pod and PodUID are of this instance.
	Pod, PodUID string

	// Volume is the folder with the persistent data. Run is a folder for sockets and rendered files. TLS has the folders server
	// and replication, with tls.crt, tls.key and ca.crt each.
	Volume, Run, TLS string
	// Source is the folder with the files for spec.bootstrap.pgBasebackup: password, ca.crt, tls.crt and tls.key, if it names
	// them.
	Source string
	// WALProgram is the program of package walfile, which PostgreSQL runs to archive and fetch WAL. Without it PostgreSQL does not archive.
	WALProgram string
	// Bind is the address to listen on; all by default.
	Bind string
	// The ports of PostgreSQL, of the agents' API, of the probes and of the metrics.
	PostgresPort, PeerPort, ProbePort, MetricsPort int
	// PeerHost is the host of an instance, with {pod} and {ordinal} as variables; by default its name in the cluster's DNS.
	PeerHost string

	// MemoryLimit is that of the container in bytes; 0 for none.
	MemoryLimit int64
	// Kube is the configuration of the API server's client.
	Kube *rest.Config
	// Store are options for the object store of spec.backup, for tests.
	Store []store.Option
	Log   *slog.Logger
	// Output receives PostgreSQL's log, as lines of JSON.
	Output io.Writer
}

// check returns an error if an option is missing.
func (o *Options) check() error {
	for what, value := range map[string]string{
		"CLUSTER_NAME": o.Cluster, "POD_NAMESPACE": o.Namespace, "POD_NAME": o.Pod, "POD_UID": o.PodUID,
	} {
		if value == "" {
			return fmt.Errorf("%s is not set: run the agent in a pod of a PostgreSQL, which has it in its environment", what)
		}
	}
	if _, ok := agentapi.Ordinal(o.Cluster, o.Pod); !ok {
		return fmt.Errorf("pod %s is not an instance of PostgreSQL %s", o.Pod, o.Cluster)
	}
	for what, path := range map[string]string{"volume": o.Volume, "run": o.Run, "tls": o.TLS} {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("folder %s: %q is not an absolute path", what, path)
		}
	}
	if o.Kube == nil || o.Log == nil || o.Output == nil {
		return errors.New("no API server or no log")
	}
	return nil
}

func (o *Options) self() election.Holder { return election.Holder{Name: o.Pod, UID: o.PodUID} }

// ordinal returns the ordinal of this instance; check has verified that there is one.
func (o *Options) ordinal() int {
	ordinal, _ := agentapi.Ordinal(o.Cluster, o.Pod)
	return ordinal
}

// name is the host name in an instance's certificate.
func (o *Options) name(pod string) string { return agentapi.Host(o.Cluster, o.Namespace, pod) }

// host returns the host of an instance.
func (o *Options) host(pod string) string {
	if o.PeerHost == "" {
		return o.name(pod)
	}
	ordinal, _ := agentapi.Ordinal(o.Cluster, pod)
	return strings.NewReplacer("{pod}", pod, "{ordinal}", strconv.Itoa(ordinal)).Replace(o.PeerHost)
}

func (o *Options) listenOn(port int) string { return net.JoinHostPort(o.Bind, strconv.Itoa(port)) }

func (o *Options) peerAddress(pod string) string {
	return net.JoinHostPort(o.host(pod), strconv.Itoa(o.PeerPort))
}

// NewLogger writes JSON lines in the format of the operator's log.
func NewLogger(out io.Writer, level slog.Leveler) *slog.Logger {
	return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			switch {
			case len(groups) > 0:
			case a.Key == slog.TimeKey:
				return slog.String("ts", a.Value.Time().UTC().Format("2006-01-02T15:04:05.000Z07:00"))
			case a.Key == slog.LevelKey:
				return slog.String("level", strings.ToLower(a.Value.String()))
			}
			return a
		},
	})).With("logger", "agent")
}
