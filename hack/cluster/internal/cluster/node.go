package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-dev/fettle/hack/cluster/internal/kube"
	"github.com/fettle-dev/fettle/hack/cluster/internal/network"
	"github.com/fettle-dev/fettle/hack/cluster/internal/process"
)

// startNode starts a node's containerd, kubelet and kube-proxy, and reports whether it started one of them.
func (u *upRun) startNode(ctx context.Context, n network.Node) (bool, error) {
	if err := u.registerNode(ctx, n); err != nil {
		return false, err
	}
	pair, kubeconfig, err := u.issueNodeCertificate(u.certs.ca, n)
	if err != nil {
		return false, err
	}
	cniBin, _ := cniDir()
	files := u.nodeFiles(n, pair.Cert, pair.Key, cniBin, resolvConf())
	config, err := files.write()
	if err != nil {
		return false, err
	}
	if err := makeCgroup(u.cgroup(n)); err != nil {
		return false, err
	}
	if err := os.MkdirAll(files.RunDir, 0o711); err != nil {
		return false, fmt.Errorf("create the run directory of %s: %w", n.Name, err)
	}
	netns := u.namespace(n)
	containerd := process.Spec{Name: "containerd-" + n.Name, Path: "containerd", NetNS: netns, Version: config["containerd.toml"],
		Args: []string{"--config", filepath.Join(files.Dir, "containerd.toml")}}
	dial := func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", files.Socket)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	first, err := ensure(ctx, u.super, containerd, dial, 3*time.Minute)
	if err != nil {
		return false, err
	}
	kubelet := process.Spec{Name: "kubelet-" + n.Name, Path: filepath.Join(u.bin, "kubelet"), NetNS: netns, Version: config["kubelet.yaml"],
		Args: []string{
			"--config=" + filepath.Join(files.Dir, "kubelet.yaml"), "--kubeconfig=" + kubeconfig, "--root-dir=" + filepath.Join(files.Dir, "kubelet"),
			"--cert-dir=" + filepath.Join(files.Dir, "kubelet", "pki"), "--hostname-override=" + n.Name, "--node-ip=" + n.Address.String(),
		}}
	second, err := u.super.Ensure(ctx, kubelet)
	if err != nil {
		return false, err
	}
	third, err := u.startProxy(ctx, n.Name, n.Address.String(), n.Name, netns)
	return first || second || third, err
}

// write renders the configuration files of a node and returns their contents.
func (f nodeFiles) write() (map[string]string, error) {
	texts := map[string]string{}
	for name, file := range map[string]string{
		"containerd.toml": filepath.Join(f.Dir, "containerd.toml"),
		"kubelet.yaml":    filepath.Join(f.Dir, "kubelet.yaml"),
		"cni.conflist":    filepath.Join(f.Dir, "cni", "10-cni.conflist"),
	} {
		text, err := renderTo(file, name, f)
		if err != nil {
			return nil, err
		}
		texts[name] = text
	}
	return texts, nil
}

// startProxy starts a kube-proxy. The host also runs one, because clients on the host connect to Services. It uses the name
// of node n1: without a Node object kube-proxy would wait for 30 seconds.
func (u *upRun) startProxy(ctx context.Context, name, address, node, netns string) (bool, error) {
	file := u.Path("conf", "kube-proxy-"+name+".yaml")
	config, err := renderTo(file, "kube-proxy.yaml", u.proxyFile(address, node))
	if err != nil {
		return false, err
	}
	return u.super.Ensure(ctx, process.Spec{Name: "kube-proxy-" + name, Path: filepath.Join(u.bin, "kube-proxy"), NetNS: netns,
		Version: config, Args: []string{"--config=" + file}})
}

// registerNode creates the Node before its kubelet does, with the pod CIDR that is routed to the node. The controller manager
// would assign the CIDRs in the order of registration.
func (u *upRun) registerNode(ctx context.Context, n network.Node) error {
	_, err := u.client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{corev1.LabelHostname: n.Name}},
		Spec:       corev1.NodeSpec{PodCIDR: n.Pods.String(), PodCIDRs: []string{n.Pods.String()}},
	}, metav1.CreateOptions{})
	if err == nil {
		return nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("register node %s: %w", n.Name, err)
	}
	node, err := u.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read node %s: %w", n.Name, err)
	}
	if node.Spec.PodCIDR == n.Pods.String() {
		return nil
	}
	// The Node was deleted and its kubelet re-created it. podCIDR is immutable, so the Node is re-created once more.
	if err := u.client.CoreV1().Nodes().Delete(ctx, n.Name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete node %s, which has the pod CIDR %s instead of %s: %w", n.Name, node.Spec.PodCIDR, n.Pods, err)
	}
	if err := u.super.Stop(ctx, "kubelet-"+n.Name, 5*time.Second); err != nil {
		return err
	}
	return u.registerNode(ctx, n)
}

// waitNodeReady waits until the node's kubelet renewed its Lease since its start, and the node is Ready.
func (u *upRun) waitNodeReady(ctx context.Context, n network.Node) error {
	name := "kubelet-" + n.Name
	ready := func(ctx context.Context) error {
		lease, err := u.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("the kubelet has no Lease yet: %w", err)
		}
		if since := u.super.State(name).Since; lease.Spec.RenewTime == nil || lease.Spec.RenewTime.Before(&metav1.MicroTime{Time: since}) {
			return errors.New("the kubelet has not renewed its Lease since its start")
		}
		node, err := u.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return nodeReady(node)
	}
	return waitReady(ctx, u.super, name, ready, 6*time.Minute)
}

// nodeReady returns nil if the node is Ready, otherwise the reason why it is not.
func nodeReady(node *corev1.Node) error {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			if c.Status == corev1.ConditionTrue {
				return nil
			}
			return fmt.Errorf("%s: %s", c.Reason, c.Message)
		}
	}
	return errors.New("the node has no Ready condition yet")
}

func (u *upRun) startNodes(ctx context.Context, report reporter) (string, error) {
	states := make([]string, len(u.nodes))
	for i, n := range u.nodes {
		report("containerd, kubelet and kube-proxy of %s", n.Name)
		started, err := u.startNode(ctx, n)
		if err != nil {
			return "", err
		}
		states[i] = n.Name + " " + startState(started)
	}
	if _, err := u.startProxy(ctx, "host", network.HostAddress, u.nodes[0].Name, ""); err != nil {
		return "", err
	}
	for i, n := range u.nodes {
		if network.IsDisconnected(n) {
			states[i] = n.Name + " disconnected"
			continue
		}
		report("%s to be Ready", n.Name)
		if err := u.waitNodeReady(ctx, n); err != nil {
			return "", err
		}
	}
	return strings.Join(states, ", "), nil
}

// waitDNS waits until cluster DNS responds on its Service address. A response needs a node, kube-proxy and CoreDNS.
func waitDNS(ctx context.Context) error {
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", network.DNSService+":53")
	}}
	return kube.Poll(ctx, 300*time.Millisecond, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		addresses, err := resolver.LookupHost(ctx, "kubernetes.default.svc.cluster.local.")
		return err == nil && len(addresses) == 1 && addresses[0] == network.APIService, err
	})
}
