// Package cluster creates, repairs and removes a Kubernetes cluster on one machine, without Docker. etcd, the control plane
// and a registry run on the host. Each node runs in its own network namespace.
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

// Addresses of the daemons on the host.
const (
	apiServer    = "https://" + network.HostAddress + ":6443"
	etcdServer   = "https://127.0.0.1:2379"
	registryAddr = network.HostAddress + ":5000"
)

// Config holds the directories of a cluster. `down` removes all of them except the cache.
type Config struct {
	State string // data that survives a reboot
	Run   string // sockets, network namespaces and containerd's runtime state
	Cache string // built tools and images, shared by all clusters and checkouts; `down` keeps it
	Name  string // name of the cgroup, the lock file and the CNI network
}

// Load reads the configuration from the environment: FETTLE_CLUSTER, FETTLE_CACHE, XDG_CACHE_HOME.
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
		return Config{}, fmt.Errorf("FETTLE_CLUSTER=%s: the last path element is the cluster's name and must be 1 to 40 characters of a-z, 0-9 and -", state)
	}
	cache := os.Getenv("FETTLE_CACHE")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return Config{}, fmt.Errorf("find the cache directory (FETTLE_CACHE sets one): %w", err)
		}
		cache = filepath.Join(user, "fettle")
	}
	return Config{State: state, Run: filepath.Join("/run", name), Cache: cache, Name: name}, nil
}

// Path returns a path in the state directory.
func (c Config) Path(parts ...string) string {
	return filepath.Join(append([]string{c.State}, parts...)...)
}

// Kubeconfig returns the path of the administrator's kubeconfig.
func (c Config) Kubeconfig() string { return c.Path("kubeconfig") }

// namespace returns the file that a node's network namespace is mounted on.
func (c Config) namespace(n network.Node) string { return filepath.Join(c.Run, "netns", n.Name) }

// socket returns the path of the node's containerd socket.
func (c Config) socket(n network.Node) string { return filepath.Join(c.Run, n.Name, "containerd.sock") }

// cgroup returns the cgroup root of the node's pods. Two kubelets with the same root would delete each other's pods.
func (c Config) cgroup(n network.Node) string { return "/" + c.Name + "/" + n.Name }

func (c Config) supervisor() *process.Supervisor {
	return &process.Supervisor{Owner: c.State, Records: c.Path("run"), Logs: c.Path("log")}
}

// nodeCount returns the number of nodes; 0 if there is no cluster.
func (c Config) nodeCount() (int, error) {
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

func (c Config) setNodeCount(n int) error {
	if err := os.MkdirAll(c.Path("nodes"), 0o755); err != nil {
		return fmt.Errorf("create the directory of nodes: %w", err)
	}
	return os.WriteFile(c.Path("nodes", "count"), []byte(strconv.Itoa(n)+"\n"), 0o644)
}

// newNodes returns the nodes 1 to count.
func newNodes(count int) ([]network.Node, error) {
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
