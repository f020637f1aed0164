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

// EnsureHost makes the bridge, gives it its address, and routes all nodes' pods to it. The bridge bears its owner's name
// (a cluster's state folder); that of another owner is refused.
func EnsureHost(ctx context.Context, owner string, nodes []Node) error {
	if err := checkOwner(ctx, owner); err != nil {
		return err
	}
	if _, err := net.InterfaceByName(Bridge); err != nil {
		if _, err := run(ctx, "", "", "ip", "link", "add", Bridge, "type", "bridge"); err != nil {
			return fmt.Errorf("make the bridge: %w", err)
		}
	}
	commands := []string{
		fmt.Sprintf("addr replace %s/24 dev %s", HostAddress, Bridge),
		fmt.Sprintf("link set %s up alias %s", Bridge, owner),
		// kube-proxy redirects what goes to a Service only after a route was found, and the machine may have no default one.
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

// ErrForeign is the error of a change to the network of another cluster.
var ErrForeign = errors.New("the network (bridge " + Bridge + ") is that of the cluster")

// checkOwner refuses the bridge of another cluster in the same network namespace: the two have the same addresses.
func checkOwner(ctx context.Context, owner string) error {
	links, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("look for the bridge: %w", err)
	}
	if !slices.ContainsFunc(links, func(l net.Interface) bool { return l.Name == Bridge }) {
		return nil
	}
	out, err := run(ctx, "", "", "ip", "-json", "link", "show", Bridge)
	if err != nil {
		return fmt.Errorf("ask whose the bridge is: %w", err)
	}
	other, err := bridgeOwner(out)
	if err != nil {
		return fmt.Errorf("ask whose the bridge is: %w", err)
	}
	if other != "" && other != owner {
		return fmt.Errorf("%w in %s: remove that one first (FETTLE_CLUSTER=%s make down), or use it", ErrForeign, other, other)
	}
	return nil
}

// bridgeOwner takes the owner from what `ip -json link show` prints. It is empty for a bridge without one.
func bridgeOwner(links string) (string, error) {
	var parsed []struct {
		Alias string `json:"ifalias"`
	}
	if err := json.Unmarshal([]byte(links), &parsed); err != nil {
		return "", err
	}
	if len(parsed) != 1 {
		return "", fmt.Errorf("%d links instead of one", len(parsed))
	}
	return parsed[0].Alias, nil
}

// EnsureNode makes the node's namespace (bound to the file netns) and cable, and routes the other nodes' pods.
// A cable that was cut stays cut.
func EnsureNode(ctx context.Context, n Node, netns string, all []Node) error {
	if err := ensureNamespace(netns); err != nil {
		return fmt.Errorf("make the network namespace of %s: %w", n.Name, err)
	}
	if _, err := run(ctx, netns, "", "ip", "link", "show", "eth0"); err != nil {
		if err := cable(ctx, n, netns); err != nil {
			return fmt.Errorf("join %s to the bridge: %w", n.Name, err)
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
	// /proc/sys/net shows the namespace of the process that opens it.
	if _, err := run(ctx, netns, "1", "tee", "/proc/sys/net/ipv4/ip_forward"); err != nil {
		return fmt.Errorf("let %s forward: %w", n.Name, err)
	}
	if err := ensureRules(ctx, netns, nodeRules()); err != nil {
		return fmt.Errorf("set the iptables rules of %s: %w", n.Name, err)
	}
	return ensureRoutes(ctx, netns, all, n.Number)
}

// cable joins a new namespace to the bridge. What is left of a former cable is removed first.
func cable(ctx context.Context, n Node, netns string) error {
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
		return fmt.Errorf("route the pod ranges: %w", err)
	}
	return nil
}

// SetCable cuts a node off (up false) or joins it again.
func SetCable(ctx context.Context, n Node, up bool) error {
	if _, err := net.InterfaceByName(n.Veth); err != nil {
		return fmt.Errorf("%s has no cable %s: is the cluster up, with that many nodes?", n.Name, n.Veth)
	}
	state := "down"
	if up {
		state = "up"
	}
	_, err := run(ctx, "", "", "ip", "link", "set", n.Veth, state)
	return err
}

// IsCut says whether the node's cable exists and is cut.
func IsCut(n Node) bool {
	link, err := net.InterfaceByName(n.Veth)
	return err == nil && link.Flags&net.FlagUp == 0
}

// Remove takes the network away: the namespaces (with all that is in them), the bridge, the host's rules. Routes go
// with the bridge. kube-proxy's own rules on the host go too. Nothing of another owner's
// network is touched: that is ErrForeign.
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
			// Its other end goes with the namespace, but the kernel does that later.
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
