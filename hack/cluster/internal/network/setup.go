package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
)

// EnsureHost creates the bridge with its address, and routes to the pods of all nodes. The alias of the bridge is its owner,
// the state directory of a cluster. EnsureHost returns ErrOtherCluster if the bridge has another owner.
func EnsureHost(ctx context.Context, owner string, nodes []Node) error {
	if err := checkOwner(ctx, owner); err != nil {
		return err
	}
	if _, err := net.InterfaceByName(Bridge); err != nil {
		if _, err := run(ctx, "", "", "ip", "link", "add", Bridge, "type", "bridge"); err != nil {
			return fmt.Errorf("create the bridge: %w", err)
		}
	}
	commands := []string{
		fmt.Sprintf("addr replace %s/24 dev %s", HostAddress, Bridge),
		fmt.Sprintf("link set %s up alias %s", Bridge, owner),
		// kube-proxy's rules apply after routing, so Service addresses need a route. The machine may have no default route.
		fmt.Sprintf("route replace %s dev %s src %s", ServiceCIDR, Bridge, HostAddress),
	}
	if err := batch(ctx, "", commands); err != nil {
		return fmt.Errorf("set up the bridge: %w", err)
	}
	if err := ensureRules(ctx, "", hostRules()); err != nil {
		return fmt.Errorf("set the host's iptables rules: %w", err)
	}
	return ensureRoutes(ctx, "", nodes, 0)
}

// ErrOtherCluster is the error of a change to the network of another cluster.
var ErrOtherCluster = errors.New("bridge " + Bridge + " belongs to the cluster")

// checkOwner returns ErrOtherCluster if the bridge belongs to another cluster: both clusters use the same addresses.
func checkOwner(ctx context.Context, owner string) error {
	links, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("list network interfaces: %w", err)
	}
	if !slices.ContainsFunc(links, func(l net.Interface) bool { return l.Name == Bridge }) {
		return nil
	}
	out, err := run(ctx, "", "", "ip", "-json", "link", "show", Bridge)
	if err != nil {
		return fmt.Errorf("read the owner of the bridge: %w", err)
	}
	other, err := bridgeOwner(out)
	if err != nil {
		return fmt.Errorf("read the owner of the bridge: %w", err)
	}
	if other != "" && other != owner {
		return fmt.Errorf("%w in %s: remove that cluster first (FETTLE_CLUSTER=%s make down), or use it", ErrOtherCluster, other, other)
	}
	return nil
}

// bridgeOwner parses the owner from the output of `ip -json link show`. It is empty for a bridge without an owner.
func bridgeOwner(links string) (string, error) {
	var parsed []struct {
		Alias string `json:"ifalias"`
	}
	if err := json.Unmarshal([]byte(links), &parsed); err != nil {
		return "", err
	}
	if len(parsed) != 1 {
		return "", fmt.Errorf("expected 1 link, got %d", len(parsed))
	}
	return parsed[0].Alias, nil
}

// EnsureNode creates the node's network namespace (mounted on the file netns), its veth pair and the routes to the other nodes'
// pods. A disconnected node stays disconnected.
func EnsureNode(ctx context.Context, n Node, netns string, all []Node) error {
	if err := ensureNamespace(netns); err != nil {
		return fmt.Errorf("create the network namespace of %s: %w", n.Name, err)
	}
	if _, err := run(ctx, netns, "", "ip", "link", "show", "eth0"); err != nil {
		if err := addVeth(ctx, n, netns); err != nil {
			return fmt.Errorf("connect %s to the bridge: %w", n.Name, err)
		}
	}
	commands := []string{
		"link set lo up",
		fmt.Sprintf("addr replace %s/24 dev eth0", n.Address),
		"link set eth0 up",
		"route replace default via " + HostAddress,
	}
	if err := batch(ctx, netns, commands); err != nil {
		return fmt.Errorf("set up the network of %s: %w", n.Name, err)
	}
	// /proc/sys/net is the one of the network namespace of the process that opens it.
	if _, err := run(ctx, netns, "1", "tee", "/proc/sys/net/ipv4/ip_forward"); err != nil {
		return fmt.Errorf("enable IP forwarding on %s: %w", n.Name, err)
	}
	if err := ensureRules(ctx, netns, nodeRules()); err != nil {
		return fmt.Errorf("set the iptables rules of %s: %w", n.Name, err)
	}
	return ensureRoutes(ctx, netns, all, n.Number)
}

// addVeth connects a new network namespace to the bridge. It first removes the remains of an earlier veth pair.
func addVeth(ctx context.Context, n Node, netns string) error {
	if _, err := net.InterfaceByName(n.Veth); err == nil {
		if _, err := run(ctx, "", "", "ip", "link", "delete", n.Veth); err != nil {
			return err
		}
	}
	return batch(ctx, "", []string{
		fmt.Sprintf("link add %s type veth peer name eth0 netns %s", n.Veth, netns),
		fmt.Sprintf("link set %s master %s up", n.Veth, Bridge),
	})
}

func ensureRoutes(ctx context.Context, netns string, nodes []Node, self int) error {
	var commands []string
	for _, r := range Routes(nodes, self) {
		commands = append(commands, fmt.Sprintf("route replace %s via %s", r.To, r.Via))
	}
	if len(commands) == 0 {
		return nil
	}
	if err := batch(ctx, netns, commands); err != nil {
		return fmt.Errorf("set the routes to the pods: %w", err)
	}
	return nil
}

// SetLink disconnects a node from the network (up false) or reconnects it.
func SetLink(ctx context.Context, n Node, up bool) error {
	if _, err := net.InterfaceByName(n.Veth); err != nil {
		return fmt.Errorf("%s has no interface %s: does the cluster run, with this node?", n.Name, n.Veth)
	}
	state := "down"
	if up {
		state = "up"
	}
	_, err := run(ctx, "", "", "ip", "link", "set", n.Veth, state)
	return err
}

// IsDisconnected reports whether the node's veth interface exists and is down.
func IsDisconnected(n Node) bool {
	link, err := net.InterfaceByName(n.Veth)
	return err == nil && link.Flags&net.FlagUp == 0
}

// Remove removes the network namespaces, the bridge with its routes, and the host's iptables rules, including kube-proxy's.
// It returns ErrOtherCluster, without a change, if the bridge has another owner.
func Remove(ctx context.Context, owner string, nodes []Node, namespaces []string) error {
	if err := checkOwner(ctx, owner); err != nil {
		return err
	}
	for _, file := range namespaces {
		if err := removeNamespace(file); err != nil {
			return err
		}
	}
	for _, n := range nodes {
		if _, err := net.InterfaceByName(n.Veth); err == nil {
			// Deleting the namespace also deletes the veth pair, but asynchronously.
			_, _ = run(ctx, "", "", "ip", "link", "delete", n.Veth)
		}
	}
	if _, err := net.InterfaceByName(Bridge); err == nil {
		if _, err := run(ctx, "", "", "ip", "link", "delete", Bridge); err != nil {
			return fmt.Errorf("remove the bridge: %w", err)
		}
	}
	return removeRules(ctx)
}

func removeNamespace(file string) error {
	if err := unmount(file); err != nil {
		return fmt.Errorf("remove the network namespace %s: %w", file, err)
	}
	return os.RemoveAll(file)
}
