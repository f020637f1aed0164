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

// daemons are the names of all processes of a cluster with those nodes.
func daemons(nodes []network.Node) []string {
	names := []string{"registry", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "storage", "kube-proxy-host"}
	for _, n := range nodes {
		names = append(names, "containerd-"+n.Name, "kubelet-"+n.Name, "kube-proxy-"+n.Name)
	}
	return names
}

// Status prints the processes and the nodes. The error tells how many of them are not as they should be.
func (c Config) Status(ctx context.Context, out io.Writer) error {
	count, err := c.nodes()
	if err != nil {
		return err
	}
	if count == 0 {
		return fmt.Errorf("there is no cluster in %s: make up", c.State)
	}
	nodes, err := places(count)
	if err != nil {
		return err
	}
	var text strings.Builder
	wrong := c.processTable(&text, nodes)
	fmt.Fprintln(&text)
	wrong += c.nodeTable(ctx, &text, nodes)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(table, text.String()); err != nil {
		return err
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if wrong > 0 {
		return fmt.Errorf("not as it should be: %d of the above; `up` repairs the cluster", wrong)
	}
	return nil
}

func (c Config) processTable(out *strings.Builder, nodes []network.Node) (wrong int) {
	s := c.supervisor()
	fmt.Fprintln(out, "PROCESS\tSTATE\tPID\tSINCE\tLOG")
	for _, name := range daemons(nodes) {
		state := s.State(name)
		if !state.Running {
			wrong++
			fmt.Fprintf(out, "%s\tnot running\t-\t-\t%s\n", name, state.Log)
			continue
		}
		fmt.Fprintf(out, "%s\trunning\t%d\t%s\t%s\n", name, state.PID, time.Since(state.Since).Round(time.Second), state.Log)
	}
	return wrong
}

func (c Config) nodeTable(ctx context.Context, out *strings.Builder, nodes []network.Node) (wrong int) {
	fmt.Fprintln(out, "NODE\tSTATE\tADDRESS\tPODS\tCABLE")
	client, err := kube.New(c.Kubeconfig())
	for _, n := range nodes {
		cable, state := "joined", "Ready"
		problem := errors.Join(err, readNode(ctx, client, n.Name))
		if problem != nil {
			state = problem.Error()
		}
		cut := network.IsCut(n)
		if cut {
			cable = "cut"
		}
		if cut || problem != nil {
			wrong++
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", n.Name, state, n.Address, n.Pods, cable)
	}
	return wrong
}

func readNode(ctx context.Context, client *kube.Client, name string) error {
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

// SetCable cuts a node off or joins it again.
func (c Config) SetCable(ctx context.Context, name string, up bool) error {
	count, err := c.nodes()
	if err != nil {
		return err
	}
	nodes, err := places(count)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if n.Name == name {
			return network.SetCable(ctx, n, up)
		}
	}
	return fmt.Errorf("there is no node %s: the cluster has n1 to n%d", name, count)
}
