package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// machine describes the machine of the measurement.
type machine struct {
	CPU        string            `json:"cpu"`
	Cores      int               `json:"cores"`
	LoadBefore string            `json:"loadBefore"`
	LoadAfter  string            `json:"loadAfter"`
	Fdatasync  float64           `json:"fdatasyncP50Milliseconds"` // of 2 KiB, beside etcd's data
	Versions   map[string]string `json:"versions"`
}

func describeMachine(folder string, config *rest.Config) (machine, error) {
	m := machine{CPU: cpuModel(), Cores: runtime.NumCPU(), LoadBefore: load(), Versions: map[string]string{
		"go": runtime.Version(), "commit": commit(), "etcd": etcdVersion(),
	}}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "sigs.k8s.io/controller-runtime" || module.Path == "k8s.io/client-go" {
				m.Versions[module.Path] = module.Version
			}
		}
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return m, err
	}
	server, err := client.ServerVersion()
	if err != nil {
		return m, fmt.Errorf("version of the API server: %w", err)
	}
	m.Versions["kube-apiserver"] = server.GitVersion
	m.Fdatasync, err = fdatasync(filepath.Join(folder, "fdatasync"))
	return m, err
}

func cpuModel() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(data)) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// load is the number of running or waiting processes, averaged over 1, 5 and 15 minutes.
func load() string {
	data, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(data))
	if err != nil || len(fields) < 3 {
		return "unknown"
	}
	return strings.Join(fields[:3], " ")
}

func commit() string {
	output, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(output))
}

func etcdVersion() string {
	output, err := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "etcd"), "--version").Output()
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(output), "\n")
	return strings.TrimPrefix(first, "etcd Version: ")
}

// fdatasync is the median time in milliseconds to write 2 KiB to the disk.
func fdatasync(path string) (float64, error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // it is removed with its folder
	times, data := make([]float64, 500), make([]byte, 2048)
	for i := range times {
		start := time.Now()
		if _, err := f.Write(data); err != nil {
			return 0, err
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			return 0, fmt.Errorf("fdatasync: %w", err)
		}
		times[i] = float64(time.Since(start)) / float64(time.Millisecond)
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}
