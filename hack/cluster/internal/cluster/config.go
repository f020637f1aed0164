// Package cluster brings up, repairs, shows and removes a Kubernetes cluster on one machine, without Docker: etcd, the
// control plane and a registry on the host, and each node in a network namespace of its own.
package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/fettle-dev/fettle/hack/cluster/internal/network"
	"github.com/fettle-dev/fettle/hack/cluster/internal/process"
)

// Addresses of what runs on the host.
const (
	apiServer    = "https://" + network.HostAddress + ":6443"
	etcdServer   = "https://127.0.0.1:2379"
	registryAddr = network.HostAddress + ":5000"
)

// Config says where a cluster keeps what it has. Everything but the cache goes with `down`.
type Config struct {
	State string // all that outlives a reboot
	Run   string // sockets, namespaces, containers' runtime state
	Cache string // built tools and images; shared by all clusters and checkouts, kept by down
	Name  string // of the cgroup, the lock and the pods' network
}

// Load takes the configuration from the environment: FETTLE_CLUSTER, FETTLE_CACHE, XDG_CACHE_HOME.
func Load() (Config, error) {
	state := os.Getenv("FETTLE_CLUSTER")
	if state == "" {
		state = "/var/lib/fettle-cluster"
	}
	state, err := filepath.Abs(state)
	if err != nil {
		return Config{}, fmt.Errorf("FETTLE_CLUSTER: %w", err)
	}
	name := filepath.Base(state)
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || len(name) > 40 {
		return Config{}, fmt.Errorf("FETTLE_CLUSTER=%s: the last part names the cluster: at most 40 of a-z, 0-9 and -", state)
	}
	cache := os.Getenv("FETTLE_CACHE")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return Config{}, fmt.Errorf("find the cache folder (FETTLE_CACHE names one): %w", err)
		}
		cache = filepath.Join(user, "fettle")
	}
	return Config{State: state, Run: filepath.Join("/run", name), Cache: cache, Name: name}, nil
}

// Path joins a path below the state folder.
func (c Config) Path(parts ...string) string {
	return filepath.Join(append([]string{c.State}, parts...)...)
}

// Kubeconfig is the administrator's.
func (c Config) Kubeconfig() string { return c.Path("kubeconfig") }

// namespace is the file to which a node's network namespace is bound.
func (c Config) namespace(n network.Node) string { return filepath.Join(c.Run, "netns", n.Name) }

// socket is where the node's containerd listens.
func (c Config) socket(n network.Node) string { return filepath.Join(c.Run, n.Name, "containerd.sock") }

// cgroup is the parent of all of the node's pods. Two kubelets with one root delete each other's pods.
func (c Config) cgroup(n network.Node) string { return "/" + c.Name + "/" + n.Name }

func (c Config) supervisor() *process.Supervisor {
	return &process.Supervisor{Owner: c.State, Records: c.Path("run"), Logs: c.Path("log")}
}

// nodes is the number of nodes that the cluster has, 0 for none.
func (c Config) nodes() (int, error) {
	data, err := os.ReadFile(c.Path("nodes", "count"))
	if os.IsNotExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the number of nodes: %w", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", c.Path("nodes", "count"), err)
	}
	return n, nil
}

func (c Config) setNodes(n int) error {
	if err := os.MkdirAll(c.Path("nodes"), 0o755); err != nil {
		return fmt.Errorf("make the folder of nodes: %w", err)
	}
	return os.WriteFile(c.Path("nodes", "count"), []byte(strconv.Itoa(n)+"\n"), 0o644)
}

// places computes the nodes 1 to count.
func places(count int) ([]network.Node, error) {
	var nodes []network.Node
	for i := range count {
		n, err := network.NewNode(i + 1)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}
