package localcluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// Cluster is the local cluster of `make up`.
type Cluster struct {
	state   string // its folder
	program string // hack/cluster, built
}

// Open finds the cluster, and builds into a folder the program that moves its cables. It must run in the project's root.
func Open(ctx context.Context, folder string) (*Cluster, error) {
	if os.Getuid() != 0 {
		return nil, fmt.Errorf("the local cluster's nodes can only be changed as root, this is user %d", os.Getuid())
	}
	c := &Cluster{state: os.Getenv("FETTLE_CLUSTER"), program: filepath.Join(folder, "cluster")}
	if c.state == "" {
		c.state = "/var/lib/fettle-cluster"
	}
	build := exec.CommandContext(ctx, "go", "-C", "hack", "build", "-o", c.program, "./cluster")
	if output, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build hack/cluster (this must run in the project's folder): %w: %s", err, output)
	}
	return c, nil
}

// Kubeconfig is the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.state, "kubeconfig") }

// Isolate disconnects a node from all others and from the control plane.
func (c *Cluster) Isolate(ctx context.Context, node string) error {
	return c.run(ctx, "disconnect", node)
}

// Reconnect reverts Isolate.
func (c *Cluster) Reconnect(ctx context.Context, node string) error {
	return c.run(ctx, "reconnect", node)
}

func (c *Cluster) run(ctx context.Context, args ...string) error {
	if output, err := exec.CommandContext(ctx, c.program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("cluster %v: %w: %s", args, err, output)
	}
	return nil
}

// Daemon returns a process of the cluster itself, such as kube-apiserver or kubelet-n1.
func (c *Cluster) Daemon(name string) (Process, error) {
	content, err := os.ReadFile(filepath.Join(c.state, "run", name+".json"))
	if err != nil {
		return Process{}, fmt.Errorf("record of %s: %w", name, err)
	}
	record := struct {
		PID   int    `json:"pid"`
		Start uint64 `json:"start"`
	}{}
	if err := json.Unmarshal(content, &record); err != nil {
		return Process{}, fmt.Errorf("record of %s: %w", name, err)
	}
	p, err := read(record.PID)
	if err != nil || p.Start != record.Start {
		return Process{}, fmt.Errorf("%s is not running: see `make status`", name)
	}
	return p, nil
}

// Dialer opens connections from inside a node. They break when the node is isolated.
func (c *Cluster) Dialer(node string) func(ctx context.Context, network, address string) (net.Conn, error) {
	file := filepath.Join("/run", filepath.Base(c.state), "netns", node)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		type result struct {
			conn net.Conn
			err  error
		}
		done := make(chan result, 1)
		go func() {
			// The thread is never unlocked: it ends with this goroutine, so no other code runs in the namespace. A socket stays in the
			// namespace that created it.
			runtime.LockOSThread()
			conn, err := dialIn(ctx, file, network, address)
			done <- result{conn, err}
		}()
		r := <-done
		return r.conn, r.err
	}
}

func dialIn(ctx context.Context, file, network, address string) (net.Conn, error) {
	namespace, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("network namespace: %w", err)
	}
	defer func() { _ = namespace.Close() }() // only read
	if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("enter %s: %w", file, err)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}
