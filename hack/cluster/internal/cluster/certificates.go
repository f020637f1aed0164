package cluster

import (
	"fmt"
	"net"
	"os"

	"github.com/fettle-dev/fettle/hack/cluster/internal/network"
	"github.com/fettle-dev/fettle/hack/cluster/internal/pki"
)

// certificates holds the CA, and the certificates and keys of the daemons on the host.
type certificates struct {
	ca                                          *pki.CA
	apiServer, apiClient, etcd, proxy, registry pki.Pair
	serviceAccountPrivate, serviceAccountPublic string
}

// user is a client of the API server with its own kubeconfig.
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

// issueCertificates creates all missing certificates and kubeconfigs, except those of the nodes.
func (c Config) issueCertificates() (*certificates, error) {
	if err := os.MkdirAll(c.Path("conf"), 0o755); err != nil {
		return nil, fmt.Errorf("create the configuration directory: %w", err)
	}
	ca, err := pki.Open(c.Path("pki"))
	if err != nil {
		return nil, err
	}
	certs := &certificates{ca: ca}
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
		if *request.pair, err = ca.Issue(request.Request); err != nil {
			return nil, err
		}
	}
	if certs.serviceAccountPrivate, certs.serviceAccountPublic, err = ca.SigningKey("service-accounts"); err != nil {
		return nil, err
	}
	for i, u := range c.users() {
		pair, err := ca.Issue(pki.Request{Name: fmt.Sprintf("user-%d", i), CommonName: u.name, Groups: u.groups})
		if err != nil {
			return nil, err
		}
		if err := ca.Kubeconfig(u.file, apiServer, u.name, pair); err != nil {
			return nil, err
		}
	}
	return certs, nil
}

// issueNodeCertificate creates a node's kubeconfig and its certificate, which the kubelet uses as server and as client.
func (c Config) issueNodeCertificate(ca *pki.CA, n network.Node) (pair pki.Pair, kubeconfig string, err error) {
	name := "system:node:" + n.Name
	pair, err = ca.Issue(pki.Request{
		Name: "node-" + n.Name, CommonName: name, Groups: []string{"system:nodes"},
		DNSNames: []string{n.Name}, IPs: []net.IP{n.Address.AsSlice()},
	})
	if err != nil {
		return pki.Pair{}, "", err
	}
	kubeconfig = c.Path("conf", n.Name+".kubeconfig")
	return pair, kubeconfig, ca.Kubeconfig(kubeconfig, apiServer, name, pair)
}
