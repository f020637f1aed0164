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

	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/election"
)

// Options say which instance the agent looks after and where.
type Options struct {
	// Cluster is the name of the PostgreSQL, of its Lease and of the ServiceAccount.
	Cluster, Namespace string
	// Pod and PodUID are of this instance.
	Pod, PodUID string

	// Volume is the folder with the data, which lasts; Run is one for sockets and rendered files, which need not. TLS has
	// the folders server and replication, with tls.crt, tls.key and ca.crt each.
	Volume, Run, TLS string
	// Source is the folder with password, ca.crt, tls.crt and tls.key for spec.bootstrap.pgBasebackup: those that it names.
	Source string
	// Bind is the address to listen on; all by default.
	Bind string
	// The ports of PostgreSQL, of the agents' protocol, of the probes and of the metrics.
	PostgresPort, PeerPort, ProbePort, MetricsPort int
	// PeerHost is where instances are reached, with {pod} and {ordinal} in it; by default their names in the cluster's DNS.
	PeerHost string

	// MemoryLimit is that of the container in bytes; 0 for none.
	MemoryLimit int64
	// Kube is the way to the API server.
	Kube *rest.Config
	// Version is the agent's own, for people.
	Version string
	Log     *slog.Logger
	// Output receives PostgreSQL's log, as lines of JSON.
	Output io.Writer
}

// check returns what is missing.
func (o *Options) check() error {
	for what, value := range map[string]string{
		"CLUSTER_NAME": o.Cluster, "POD_NAMESPACE": o.Namespace, "POD_NAME": o.Pod, "POD_UID": o.PodUID,
	} {
		if value == "" {
			return fmt.Errorf("%s is not set: the agent runs in the pods of a PostgreSQL, which have it in their environment", what)
		}
	}
	if _, ok := agentapi.Ordinal(o.Cluster, o.Pod); !ok {
		return fmt.Errorf("pod %s is no instance of PostgreSQL %s", o.Pod, o.Cluster)
	}
	for what, path := range map[string]string{"volume": o.Volume, "run": o.Run, "tls": o.TLS} {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("folder %s: %q is no absolute path", what, path)
		}
	}
	if o.Kube == nil || o.Log == nil || o.Output == nil {
		return errors.New("no API server or no log")
	}
	return nil
}

func (o *Options) self() election.Holder { return election.Holder{Name: o.Pod, UID: o.PodUID} }

// ordinal of this instance; check has seen that there is one.
func (o *Options) ordinal() int {
	ordinal, _ := agentapi.Ordinal(o.Cluster, o.Pod)
	return ordinal
}

// name is the host name in an instance's certificate.
func (o *Options) name(pod string) string { return agentapi.Host(o.Cluster, o.Namespace, pod) }

// host is where an instance is reached.
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

// NewLogger writes JSON lines in the form of the operator's own log.
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
