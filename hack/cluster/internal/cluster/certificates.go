package cluster

import (
	"fmt"
	"net"
	"os"

	"github.com/fettle-dev/fettle/hack/cluster/internal/network"
	"github.com/fettle-dev/fettle/hack/cluster/internal/pki"
)

// certificates holds what the daemons on the host prove themselves with.
type certificates struct {
	authority                                   *pki.Authority
	apiServer, apiClient, etcd, proxy, registry pki.Pair
	serviceAccountPrivate, serviceAccountPublic string
}

// user is a client of the API server with a kubeconfig of its own.
type user struct {
	name, file string
	groups     []string
}

func (c Config) users() []user {
	return []user{
		{name: "fettle-admin", file: c.Kubeconfig(), groups: []string{"system:masters"}},
		{name: "system:kube-controller-manager", file: c.Path("conf", "kube-controller-manager.kubeconfig")},
		{name: "system:kube-scheduler", file: c.Path("conf", "kube-scheduler.kubeconfig")},
		{name: "system:kube-proxy", file: c.Path("conf", "kube-proxy.kubeconfig")},
		{name: storageUser, file: c.Path("conf", "storage.kubeconfig")},
	}
}

// issueCertificates makes all certificates and kubeconfigs that are not there yet, except those of the nodes.
func (c Config) issueCertificates() (*certificates, error) {
	if err := os.MkdirAll(c.Path("conf"), 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of configurations: %w", err)
	}
	authority, err := pki.Open(c.Path("pki"))
	if err != nil {
		return nil, err
	}
	certs := &certificates{authority: authority}
	host, loopback := net.ParseIP(network.HostAddress), net.ParseIP("127.0.0.1")
	for _, request := range []struct {
		pair *pki.Pair
		pki.Request
	}{
		{&certs.apiServer, pki.Request{
			Name: "apiserver", CommonName: "kube-apiserver",
			DNSNames: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
			IPs:      []net.IP{loopback, net.ParseIP(network.APIService), host},
		}},
		{&certs.apiClient, pki.Request{Name: "apiserver-client", CommonName: "kube-apiserver-client", Groups: []string{"system:masters"}}},
		{&certs.proxy, pki.Request{Name: "front-proxy", CommonName: "front-proxy-client"}},
		{&certs.etcd, pki.Request{Name: "etcd", CommonName: "etcd", DNSNames: []string{"localhost"}, IPs: []net.IP{loopback}}},
		{&certs.registry, pki.Request{Name: "registry", CommonName: "registry", DNSNames: []string{"localhost"}, IPs: []net.IP{host, loopback}}},
	} {
		if *request.pair, err = authority.Issue(request.Request); err != nil {
			return nil, err
		}
	}
	if certs.serviceAccountPrivate, certs.serviceAccountPublic, err = authority.SigningKey("service-accounts"); err != nil {
		return nil, err
	}
	for i, u := range c.users() {
		pair, err := authority.Issue(pki.Request{Name: fmt.Sprintf("user-%d", i), CommonName: u.name, Groups: u.groups})
		if err != nil {
			return nil, err
		}
		if err := authority.Kubeconfig(u.file, apiServer, u.name, pair); err != nil {
			return nil, err
		}
	}
	return certs, nil
}

// issueNode makes a node's certificate, for both sides of its kubelet, and its kubeconfig.
func (c Config) issueNode(authority *pki.Authority, n network.Node) (pair pki.Pair, kubeconfig string, err error) {
	name := "system:node:" + n.Name
	pair, err = authority.Issue(pki.Request{
		Name: "node-" + n.Name, CommonName: name, Groups: []string{"system:nodes"},
		DNSNames: []string{n.Name}, IPs: []net.IP{n.Address.AsSlice()},
	})
	if err != nil {
		return pki.Pair{}, "", err
	}
	kubeconfig = c.Path("conf", n.Name+".kubeconfig")
	return pair, kubeconfig, authority.Kubeconfig(kubeconfig, apiServer, name, pair)
}
