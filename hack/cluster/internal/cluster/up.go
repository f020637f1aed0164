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

// Options are what a user can choose.
type Options struct {
	Nodes int // at least that many; 0: as many as there are, or one
	// ClusterImages leaves out the stand-in images of databases and the like: minutes less with a cold cache.
	ClusterImages bool
}

// upRun is one run of Up: what its steps find out for later steps.
type upRun struct {
	Config
	super  *process.Supervisor
	nodes  []network.Node
	small  bool   // without the images that the cluster does not need itself
	bin    string // the folder with the Kubernetes binaries
	certs  *certificates
	client *kube.Client
}

// Up brings the cluster up, or repairs what is not as it should be. It can be stopped and run again at any time.
func (c Config) Up(ctx context.Context, options Options, out io.Writer) error {
	l, err := c.acquire()
	if err != nil {
		return err
	}
	defer l.release(false)
	p := &progress{out: out, start: time.Now()}
	u := &upRun{Config: c, super: c.supervisor(), small: options.ClusterImages}
	if err := u.prepare(options.Nodes, p); err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		do   func(context.Context, note) (string, error)
	}{
		{"packages", u.installPackages},
		{"kubernetes", u.buildKubernetes},
		{"certificates", u.makeCertificates},
		{"network", u.layNetwork},
		{"registry", u.startRegistry},
		{"etcd", u.startEtcd},
		{"API server", u.startAPIServer},
		{"controllers", u.startControllers},
		{"storage", u.startStorage},
		{"nodes", u.startNodes},
		{"own images", u.clusterImages},
		{"DNS", u.startDNS},
		{"OLM", u.installOLM},
		{"other images", u.allImages},
	} {
		if err := p.step(ctx, step.name, step.do); err != nil {
			if errors.Is(ctx.Err(), context.Canceled) {
				return errors.New("stopped; run it again to go on")
			}
			return err
		}
	}
	p.line("%-14s nodes: %d, Kubernetes and OLM are up. Type:", "done", len(u.nodes))
	_, err = fmt.Fprintf(out, "\n  export KUBECONFIG=%s PATH=%s:$PATH\n  kubectl get pods -A\n\n", c.Kubeconfig(), u.bin)
	return err
}

// prepare makes the folders and settles the number of nodes.
func (u *upRun) prepare(nodes int, p *progress) error {
	for _, dir := range []string{u.State, u.Path("log"), u.Path("bin"), u.Path("registry"), u.Run, u.Cache} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make the cluster's folders: %w", err)
		}
	}
	has, err := u.Config.nodes()
	if err != nil {
		return err
	}
	if nodes > 0 && nodes < has {
		p.line("%-14s %d are asked for, the cluster has %d: it keeps them (`down` and `up` make a smaller one)", "nodes", nodes, has)
	}
	count := max(nodes, has, 1)
	if u.nodes, err = places(count); err != nil {
		return err
	}
	if err := u.setNodes(count); err != nil {
		return fmt.Errorf("write the number of nodes: %w", err)
	}
	return saveSysctls(u.Path("sysctls.json"), sysctlRoot)
}

func (u *upRun) installPackages(ctx context.Context, say note) (string, error) {
	say("apt-get")
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

func (u *upRun) buildKubernetes(ctx context.Context, say note) (string, error) {
	var err error
	u.bin, err = u.tools(ctx, "kubernetes", say)
	return "built", err
}

func (u *upRun) makeCertificates(context.Context, note) (string, error) {
	var err error
	if u.certs, err = u.issueCertificates(); err != nil {
		return "", err
	}
	u.client, err = kube.New(u.Kubeconfig())
	return "in " + u.Path("pki"), err
}

func (u *upRun) layNetwork(ctx context.Context, _ note) (string, error) {
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
