package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fettle-dev/fettle/test/localcluster"
)

// place is the environment of a bare server.
type place struct {
	address string
	// network is the file of the network namespace; empty for the namespace of this program.
	network string
}

// places returns the places of the bare servers.
func places(in *pgInstance) ([]place, error) {
	server, err := in.process()
	if err != nil {
		return nil, fmt.Errorf("-mode pgbench needs the pod on this machine: %w", err)
	}
	return []place{{address: in.pod, network: fmt.Sprintf("/proc/%d/ns/net", server.PID)}, {address: "127.0.0.1"}}, nil
}

// process returns the first process of the instance's PostgreSQL.
func (in *pgInstance) process() (localcluster.Process, error) {
	all, err := localcluster.Container(in.container)
	if err != nil {
		return localcluster.Process{}, err
	}
	server := localcluster.PostgreSQL(all)
	if len(server) == 0 {
		return localcluster.Process{}, errors.New("the instance's container runs no PostgreSQL")
	}
	return server[0], nil
}

// run starts a process in the place, and closes ended when it has exited. The thread that started it must live as long as the process,
// because the kernel treats the thread's end as the parent's (Pdeathsig).
func (p place) run(process *exec.Cmd, ended chan<- struct{}) error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: no other code may run in the other network
		err := p.enter()
		if err == nil {
			err = process.Start()
		}
		started <- err
		if err == nil {
			_ = process.Wait() // its log has the reason
			close(ended)
		}
	}()
	return <-started
}

// enter moves this thread into the place's network.
func (p place) enter() error {
	if p.network == "" {
		return nil
	}
	file, err := os.Open(p.network)
	if err != nil {
		return fmt.Errorf("network of the pod: %w", err)
	}
	defer func() { _ = file.Close() }() // only read
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the network of the pod: %w", err)
	}
	return nil
}

// share moves the server into a cgroup beside that of the instance's container, with the same weight. The instance is idle while pgbench
// runs against the server, so each has the pod's CPU share alone.
func (b *bareServer) share(like *pgInstance) error {
	if err := b.enterGroup(like); err != nil {
		return fmt.Errorf("set the pod's CPU share (needs root on the pod's machine): %w", err)
	}
	return nil
}

func (b *bareServer) enterGroup(like *pgInstance) error {
	theirs, err := like.process()
	if err != nil {
		return err
	}
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", theirs.PID))
	if err != nil {
		return err
	}
	container, file := cpuGroup(string(groups))
	weight, err := os.ReadFile(filepath.Join(container, file))
	if err != nil {
		return err
	}
	group := filepath.Join(filepath.Dir(container), filepath.Base(b.folder))
	if err := os.Mkdir(group, 0o755); err != nil {
		return err
	}
	b.group = group
	if err := os.WriteFile(filepath.Join(group, file), weight, 0o644); err != nil {
		return err
	}
	// Existing child processes must be moved one by one; later ones inherit the cgroup.
	server := b.process.Process.Pid
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", server, server))
	if err != nil {
		return err
	}
	for _, pid := range append([]string{strconv.Itoa(server)}, strings.Fields(string(children))...) {
		if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(pid), 0o644); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// cpuGroup returns the folder of the cgroup with the CPU share of a process, and the name of the file with the weight. groups is the
// content of /proc/PID/cgroup.
func cpuGroup(groups string) (folder, weight string) {
	for line := range strings.Lines(groups) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		if slices.Contains(strings.Split(fields[1], ","), "cpu") { // version 1 takes precedence if there are both
			return filepath.Join("/sys/fs/cgroup", fields[1], fields[2]), "cpu.shares"
		}
		if fields[0] == "0" {
			folder, weight = filepath.Join("/sys/fs/cgroup", fields[2]), "cpu.weight"
		}
	}
	return folder, weight
}
