// Package network sets up the local cluster's network: a bridge on the host, a network namespace per node, connected to the
// bridge by a veth pair, and routes between the nodes' pod CIDRs.
package network

import (
	"fmt"
	"net/netip"
)

// The addresses of the cluster. Two clusters on one machine must run in different network namespaces.
const (
	Bridge      = "fettle0"
	HostAddress = "172.30.0.1"
	NodeRange   = "172.30.0.0/24"
	PodRange    = "10.244.0.0/16"
	ServiceCIDR = "10.96.0.0/16"
	APIService  = "10.96.0.1" // the Service default/kubernetes
	DNSService  = "10.96.0.10"
	// MaxNodes is limited by the addresses in NodeRange.
	MaxNodes = 99
)

// Node is the network configuration of a node. All values derive from its number, which starts at 1.
type Node struct {
	Number  int
	Name    string
	Address netip.Addr
	Pods    netip.Prefix
	// Veth is the host's end of the veth pair; the node's end is eth0.
	Veth string
}

// NewNode returns the network configuration of a node.
func NewNode(number int) (Node, error) {
	if number < 1 || number > MaxNodes {
		return Node{}, fmt.Errorf("node %d: nodes are numbered from 1 to %d", number, MaxNodes)
	}
	n := byte(number)
	return Node{
		Number:  number,
		Name:    fmt.Sprintf("n%d", number),
		Address: netip.AddrFrom4([4]byte{172, 30, 0, 10 + n}),
		Pods:    netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, n, 0}), 24),
		Veth:    fmt.Sprintf("v%d", number),
	}, nil
}

// Route is the route to the pod CIDR of a node.
type Route struct {
	To  netip.Prefix
	Via netip.Addr
}

// Routes returns the routes to the pods of all nodes except self. On the host, self is 0.
func Routes(nodes []Node, self int) []Route {
	var routes []Route
	for _, n := range nodes {
		if n.Number != self {
			routes = append(routes, Route{To: n.Pods, Via: n.Address})
		}
	}
	return routes
}
