package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-dev/fettle/hack/cluster/internal/kube"
	"github.com/fettle-dev/fettle/hack/cluster/internal/network"
)

// daemons returns the names of all daemons of a cluster with these nodes.
func daemons(nodes []network.Node) []string {
	names := []string{"registry", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "storage", "kube-proxy-host"}
	for _, n := range nodes {
		names = append(names, "containerd-"+n.Name, "kubelet-"+n.Name, "kube-proxy-"+n.Name)
	}
	return names
}

// Status prints the daemons and the nodes. The error has the number of failed ones.
func (c Config) Status(ctx context.Context, out io.Writer) error {
	count, err := c.nodeCount()
	if err != nil {
		return err
	}
	if count == 0 {
		return fmt.Errorf("no cluster found in %s: run `make up`", c.State)
	}
	nodes, err := newNodes(count)
	if err != nil {
		return err
	}
	var text strings.Builder
	problems := c.processTable(&text, nodes)
	fmt.Fprintln(&text)
	problems += c.nodeTable(ctx, &text, nodes)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(table, text.String()); err != nil {
		return err
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if problems > 0 {
		return fmt.Errorf("%d problems found; `up` repairs the cluster", problems)
	}
	return nil
}

func (c Config) processTable(out *strings.Builder, nodes []network.Node) (problems int) {
	s := c.supervisor()
	fmt.Fprintln(out, "PROCESS\tSTATE\tPID\tSINCE\tLOG")
	for _, name := range daemons(nodes) {
		state := s.State(name)
		if !state.Running {
			problems++
			fmt.Fprintf(out, "%s\tnot running\t-\t-\t%s\n", name, state.Log)
			continue
		}
		fmt.Fprintf(out, "%s\trunning\t%d\t%s\t%s\n", name, state.PID, time.Since(state.Since).Round(time.Second), state.Log)
	}
	return problems
}

func (c Config) nodeTable(ctx context.Context, out *strings.Builder, nodes []network.Node) (problems int) {
	fmt.Fprintln(out, "NODE\tSTATE\tADDRESS\tPODS\tLINK")
	client, err := kube.New(c.Kubeconfig())
	for _, n := range nodes {
		link, state := "up", "Ready"
		problem := errors.Join(err, checkNode(ctx, client, n.Name))
		if problem != nil {
			state = problem.Error()
		}
		disconnected := network.IsDisconnected(n)
		if disconnected {
			link = "down"
		}
		if disconnected || problem != nil {
			problems++
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", n.Name, state, n.Address, n.Pods, link)
	}
	return problems
}

func checkNode(ctx context.Context, client *kube.Client, name string) error {
	if client == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return nodeReady(node)
}

// SetLink disconnects a node from the network (up false) or reconnects it.
func (c Config) SetLink(ctx context.Context, name string, up bool) error {
	count, err := c.nodeCount()
	if err != nil {
		return err
	}
	nodes, err := newNodes(count)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if n.Name == name {
			return network.SetLink(ctx, n, up)
		}
	}
	return fmt.Errorf("no node %s: the nodes are n1 to n%d", name, count)
}
