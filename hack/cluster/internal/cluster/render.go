package cluster

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	"github.com/fettle-dev/fettle/hack/cluster/internal/network"
)

// pauseImage is the sandbox image of every pod.
const pauseImage = "registry.k8s.io/pause:3.10"

//go:embed templates
var templateFiles embed.FS

var templates = template.Must(template.New("").Option("missingkey=error").ParseFS(templateFiles, "templates/*"))

// mirrors maps the hosts that the local registry mirrors to their servers.
var mirrors = map[string]string{
	"docker.io":       "https://registry-1.docker.io",
	"quay.io":         "https://quay.io",
	"ghcr.io":         "https://ghcr.io",
	"registry.k8s.io": "https://registry.k8s.io",
	registryAddr:      "https://" + registryAddr,
}

// nodeFiles holds the template values of a node's configuration files.
type nodeFiles struct {
	Dir, RunDir, Socket, CNIBin, CertsD, PauseImage string
	CA, Cert, Key, CgroupRoot, DNS, ResolvConf      string
	Network, Pods                                   string
}

// proxyFile holds the template values of kube-proxy's configuration.
type proxyFile struct {
	Address, Kubeconfig, PodRange, NodeRange, Node string
}

// hostsFile holds the template values of containerd's configuration of one registry.
type hostsFile struct {
	Host, Server, Mirror, CA string
}

func (c Config) nodeFiles(n network.Node, cert, key, cniBin, resolvConf string) nodeFiles {
	return nodeFiles{
		Dir: c.Path("nodes", n.Name), RunDir: filepath.Join(c.Run, n.Name), Socket: c.socket(n),
		CNIBin: cniBin, CertsD: c.Path("certs.d"), PauseImage: pauseImage,
		CA: c.Path("pki", "ca.crt"), Cert: cert, Key: key,
		CgroupRoot: c.cgroup(n), DNS: network.DNSService, ResolvConf: resolvConf,
		Network: c.Name, Pods: n.Pods.String(),
	}
}

func (c Config) proxyFile(address, node string) proxyFile {
	return proxyFile{Address: address, Kubeconfig: c.Path("conf", "kube-proxy.kubeconfig"), PodRange: network.PodRange, NodeRange: network.NodeRange, Node: node}
}

// render executes one of the templates.
func render(name string, values any) ([]byte, error) {
	var out bytes.Buffer
	if err := templates.ExecuteTemplate(&out, name, values); err != nil {
		return nil, fmt.Errorf("render %s: %w", name, err)
	}
	return out.Bytes(), nil
}

// renderTo renders a template to a file, creates its directory and returns the content. It does not write an unchanged file,
// because kube-proxy exits when its configuration file is written.
func renderTo(file, name string, values any) (string, error) {
	data, err := render(name, values)
	if err != nil {
		return "", err
	}
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, data) {
		return string(data), nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return "", fmt.Errorf("create the directory of %s: %w", file, err)
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		return "", fmt.Errorf("write %s: %w", file, err)
	}
	return string(data), nil
}

// renderMirrors writes containerd's configuration of the registries.
func (c Config) renderMirrors() error {
	for host, server := range mirrors {
		values := hostsFile{Host: host, Server: server, Mirror: registryAddr, CA: c.Path("pki", "ca.crt")}
		if _, err := renderTo(c.Path("certs.d", host, "hosts.toml"), "hosts.toml", values); err != nil {
			return err
		}
	}
	return nil
}

// resolvConf returns a resolv.conf with name servers that pods can reach. systemd-resolved's stub listens only on the host.
func resolvConf() string {
	const resolved = "/run/systemd/resolve/resolv.conf"
	if _, err := os.Stat(resolved); err == nil {
		return resolved
	}
	return "/etc/resolv.conf"
}
