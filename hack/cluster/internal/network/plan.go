// Package network lays the local cluster's network: a bridge on the host, and for each node a network namespace that is
// joined to it by a veth pair, with routes between the nodes' pod ranges.
package network

import (
	"fmt"
	"net/netip"
)

// The addresses of the cluster. Two clusters on one machine need a network namespace each.
const (
	Bridge      = "fettle0"
	HostAddress = "172.30.0.1"
	NodeRange   = "172.30.0.0/24"
	PodRange    = "10.244.0.0/16"
	ServiceCIDR = "10.96.0.0/16"
	APIService  = "10.96.0.1" // of the Service default/kubernetes
	DNSService  = "10.96.0.10"
	// MaxNodes is what fits between the first node's address and the end of NodeRange, with a margin.
	MaxNodes = 99
)

// Node is one node's place in the network. Everything follows from its number, which starts with 1.
type Node struct {
	Number  int
	Name    string
	Address netip.Addr
	Pods    netip.Prefix
	// Veth is the host's end of the cable; the node's end is eth0.
	Veth string
}

// NewNode computes the place of a node.
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

// Route sends a pod range to the node that holds it.
type Route struct {
	To  netip.Prefix
	Via netip.Addr
}

// Routes are those that a place in the network needs to reach all pods: one for each node except itself. On the host,
// self is 0.
func Routes(nodes []Node, self int) []Route {
	var routes []Route
	for _, n := range nodes {
		if n.Number != self {
			routes = append(routes, Route{To: n.Pods, Via: n.Address})
		}
	}
	return routes
}
