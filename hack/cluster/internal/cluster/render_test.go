package cluster

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-dev/fettle/hack/cluster/internal/network"
)

var update = flag.Bool("update", false, "update the golden files")

func example(t *testing.T) (Config, network.Node) {
	t.Helper()
	n, err := network.NewNode(2)
	if err != nil {
		t.Fatal(err)
	}
	return Config{State: "/var/lib/fettle-cluster", Run: "/run/fettle-cluster", Cache: "/cache", Name: "fettle-cluster"}, n
}

func TestRenderedFiles(t *testing.T) {
	c, n := example(t)
	files := c.nodeFiles(n, "/pki/node-n2.crt", "/pki/node-n2.key", "/usr/lib/cni", "/etc/resolv.conf")
	for name, values := range map[string]any{
		"containerd.toml":   files,
		"kubelet.yaml":      files,
		"cni.conflist":      files,
		"kube-proxy.yaml":   c.proxyFile(n.Address.String(), n.Name),
		"audit-policy.yaml": nil,
		"hosts.toml":        hostsFile{Host: "quay.io", Server: mirrors["quay.io"], Mirror: registryAddr, CA: "/pki/ca.crt"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := render(name, values)
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s (update it with go test -update):\n%s", golden, diff)
			}
		})
	}
}

func TestRenderTo_keepsUnchangedFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dir", "policy.yaml")
	if _, err := renderTo(file, "audit-policy.yaml", nil); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, before.ModTime().Add(-1e9), before.ModTime().Add(-1e9)); err != nil {
		t.Fatal(err)
	}
	if _, err := renderTo(file, "audit-policy.yaml", nil); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if !after.ModTime().Before(before.ModTime()) {
		t.Error("the unchanged file was written: kube-proxy would exit")
	}
}
