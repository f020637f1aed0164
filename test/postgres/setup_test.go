package postgres

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agent"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/pki"
	"github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/test/audit"
)

// createObjects creates the PostgreSQL, its Lease and pods, and the agents' role.
func (c *cluster) createObjects(replicas int, change func(*databasev1alpha1.PostgreSQL)) {
	c.t.Helper()
	installed, err := server.FindBinaries(c.t.Context()) // as the agents do
	if err != nil {
		c.t.Fatal(err)
	}
	pg := &databasev1alpha1.PostgreSQL{}
	pg.Name, pg.Namespace = name, c.namespace
	pg.Spec.Version, pg.Spec.Replicas = strconv.Itoa(installed.Major), new(int32(replicas))
	pg.Spec.Storage.Set(1 << 30)
	pg.Spec.PgHBA = []databasev1alpha1.PostgreSQLHBARule{{Method: "cert", Roles: []databasev1alpha1.Identifier{"ledger"}}}
	if change != nil {
		change(pg)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: c.namespace, Annotations: map[string]string{agent.AnnotationFresh: "true"},
	}}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.namespace}, Rules: agent.PolicyRules(name, 3)}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: c.namespace}},
	}
	for _, object := range []client.Object{pg, lease, role, binding} {
		if err := c.client.Create(c.t.Context(), object); err != nil {
			c.t.Fatal(err)
		}
	}
}

// checkRBAC checks, at the end of the test, that no request of the agents was forbidden with the operator's role.
func (c *cluster) checkRBAC(t testing.TB) (check func()) {
	t.Helper()
	recorder, err := audit.New(env.AuditLog, env.Admin)
	if err != nil {
		t.Fatal(err)
	}
	from, err := recorder.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if c.deleted {
			return
		}
		agents := audit.Filter{User: "system:serviceaccount:" + c.namespace + ":" + name}
		rights, err := recorder.Rights(context.WithoutCancel(t.Context()), from, agents)
		if err != nil {
			t.Error(err)
		}
		for right, times := range rights.Refused {
			t.Errorf("the agents' role lacks the permission to %s: %d requests were forbidden", right, times)
		}
	}
}

// add prepares an instance: its pod, certificates and proxies.
func (c *cluster) add(ordinal, replicas int) {
	c.t.Helper()
	i := &instance{
		cluster: c, ordinal: ordinal, pod: agentapi.Pod(name, ordinal), dir: filepath.Join(c.dir, strconv.Itoa(ordinal)), log: &logFile{},
		peers: map[int]*link{}, replication: map[int]*link{},
	}
	c.instances = append(c.instances, i)
	i.recreatePod()
	for _, dir := range []string{"", "data", "run", "tls", "tls/server", "tls/replication"} {
		if err := os.MkdirAll(filepath.Join(i.dir, dir), 0o700); err != nil {
			c.t.Fatal(err)
		}
		own(c.t, filepath.Join(i.dir, dir))
	}
	server, err := c.ca.Server(append(pki.Hosts(name, c.namespace), "localhost"), time.Now())
	if err == nil {
		var replication pki.Pair
		replication, err = c.ca.Client(pki.Replication, time.Now())
		i.writeCertificate("replication", replication)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	i.writeCertificate("server", server)
	apiHost := strings.Trim(strings.TrimPrefix(env.Admin.Host, "https:"), "/")
	i.api = newLink(c.t, fmt.Sprintf("127.%d.%d.100:%d", c.network, ordinal, c.ports[1]), func() string { return apiHost })
	for to := range replicas {
		if to == ordinal {
			continue
		}
		target := func(port int) func() string {
			return func() string { return c.address(to, port) }
		}
		i.peers[to] = newLink(c.t, fmt.Sprintf("127.%d.%d.%d:%d", c.network, ordinal, to, c.ports[1]), target(1))
		i.replication[to] = newLink(c.t, fmt.Sprintf("127.%d.%d.%d:%d", c.network, ordinal, to, c.ports[0]), target(0))
	}
	i.writeKubeconfig()
}

// address is the address of an instance itself. Links use it even if the instance does not run.
func (c *cluster) address(ordinal, port int) string {
	return fmt.Sprintf("127.%d.200.%d:%d", c.network, ordinal+1, c.ports[port])
}

func (i *instance) address(port int) string { return i.cluster.address(i.ordinal, port) }

func (i *instance) writeCertificate(folder string, pair pki.Pair) {
	i.cluster.t.Helper()
	for file, content := range map[string][]byte{"tls.crt": pair.Certificate, "tls.key": pair.Key, "ca.crt": i.cluster.ca.Certificate} {
		path := filepath.Join(i.dir, "tls", folder, file)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			i.cluster.t.Fatal(err)
		}
		own(i.cluster.t, path)
	}
}

// writeKubeconfig configures the agent to act as the ServiceAccount, over the API server's link.
func (i *instance) writeKubeconfig() {
	i.cluster.t.Helper()
	admin := env.Admin
	config := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {
			Server:                   fmt.Sprintf("https://127.%d.%d.100:%d", i.cluster.network, i.ordinal, i.cluster.ports[1]),
			TLSServerName:            "localhost",
			CertificateAuthorityData: admin.CAData,
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {
			ClientCertificateData: admin.CertData, ClientKeyData: admin.KeyData,
			Impersonate: "system:serviceaccount:" + i.cluster.namespace + ":" + name,
		}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}
	path := filepath.Join(i.dir, "kubeconfig")
	if err := clientcmd.WriteToFile(config, path); err != nil {
		i.cluster.t.Fatal(err)
	}
	own(i.cluster.t, path)
}
