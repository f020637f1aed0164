package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fettle-dev/fettle/hack/cluster/internal/kube"
	"github.com/fettle-dev/fettle/hack/cluster/internal/network"
	"github.com/fettle-dev/fettle/hack/cluster/internal/process"
)

// Options are the options of Up.
type Options struct {
	Nodes int // the minimum number of nodes; 0 keeps the current number, or creates one node
	// ClusterImages skips the stand-in images of databases and other applications, which saves minutes with a cold cache.
	ClusterImages bool
}

// upRun is one run of Up, with the results of its steps.
type upRun struct {
	Config
	super             *process.Supervisor
	nodes             []network.Node
	clusterImagesOnly bool   // skip the images that the cluster itself does not need
	bin               string // the directory of the Kubernetes binaries
	certs             *certificates
	client            *kube.Client
}

// Up creates or repairs the cluster. You can interrupt it and run it again at any time.
func (c Config) Up(ctx context.Context, options Options, out io.Writer) error {
	l, err := c.acquire()
	if err != nil {
		return err
	}
	defer l.release(false)
	p := &progress{out: out, start: time.Now()}
	u := &upRun{Config: c, super: c.supervisor(), clusterImagesOnly: options.ClusterImages}
	if err := u.prepare(options.Nodes, p); err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		do   func(context.Context, reporter) (string, error)
	}{
		{"packages", u.installPackages},
		{"kubernetes", u.buildKubernetes},
		{"certificates", u.makeCertificates},
		{"network", u.setUpNetwork},
		{"registry", u.startRegistry},
		{"etcd", u.startEtcd},
		{"API server", u.startAPIServer},
		{"controllers", u.startControllers},
		{"storage", u.startStorage},
		{"nodes", u.startNodes},
		{"cluster images", u.clusterImages},
		{"DNS", u.startDNS},
		{"OLM", u.installOLM},
		{"other images", u.otherImages},
	} {
		if err := p.step(ctx, step.name, step.do); err != nil {
			if errors.Is(ctx.Err(), context.Canceled) {
				return errors.New("interrupted; run it again to continue")
			}
			return err
		}
	}
	p.line("%-14s Kubernetes and OLM are ready, nodes: %d. Run:", "done", len(u.nodes))
	_, err = fmt.Fprintf(out, "\n  export KUBECONFIG=%s PATH=%s:$PATH\n  kubectl get pods -A\n\n", c.Kubeconfig(), u.bin)
	return err
}

// prepare creates the directories and determines the number of nodes.
func (u *upRun) prepare(nodes int, p *progress) error {
	for _, dir := range []string{u.State, u.Path("log"), u.Path("bin"), u.Path("registry"), u.Run, u.Cache} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("create the cluster's directories: %w", err)
		}
	}
	current, err := u.nodeCount()
	if err != nil {
		return err
	}
	if nodes > 0 && nodes < current {
		p.line("%-14s %d requested, but the cluster has %d and keeps them (run `down` and `up` for fewer nodes)", "nodes", nodes, current)
	}
	count := max(nodes, current, 1)
	if u.nodes, err = newNodes(count); err != nil {
		return err
	}
	if err := u.setNodeCount(count); err != nil {
		return fmt.Errorf("write the number of nodes: %w", err)
	}
	return saveSysctls(u.Path("sysctls.json"), sysctlRoot)
}

func (u *upRun) installPackages(ctx context.Context, report reporter) (string, error) {
	report("apt-get")
	log := u.super.LogFile("packages")
	result, err := installPackages(ctx, log)
	if err != nil {
		return "", err
	}
	if err := prepareKernel(ctx, log); err != nil {
		return "", err
	}
	return result, setSysctls(sysctlRoot)
}

func (u *upRun) buildKubernetes(ctx context.Context, report reporter) (string, error) {
	var err error
	u.bin, err = u.tools(ctx, "kubernetes", report)
	return "built", err
}

func (u *upRun) makeCertificates(context.Context, reporter) (string, error) {
	var err error
	if u.certs, err = u.issueCertificates(); err != nil {
		return "", err
	}
	u.client, err = kube.New(u.Kubeconfig())
	return "in " + u.Path("pki"), err
}

func (u *upRun) setUpNetwork(ctx context.Context, _ reporter) (string, error) {
	if err := network.EnsureHost(ctx, u.State, u.nodes); err != nil {
		return "", err
	}
	for _, n := range u.nodes {
		if err := network.EnsureNode(ctx, n, u.namespace(n), u.nodes); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("bridge %s, namespaces in %s", network.Bridge, filepath.Join(u.Run, "netns")), nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
