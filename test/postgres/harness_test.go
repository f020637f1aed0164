// Package postgres runs whole clusters on one machine: real PostgreSQL servers, each with an agent that is a process of its
// own, against a real API server, with proxies between them that can be cut. Nothing of Kubernetes runs but the API server:
// the tests stand for the operator and for the kubelet.
package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/cmd"
	"github.com/fettle-dev/fettle/internal/postgres/agent"
	"github.com/fettle-dev/fettle/internal/postgres/peer"
	"github.com/fettle-dev/fettle/internal/postgres/pki"
	"github.com/fettle-dev/fettle/internal/testenv"
)

var (
	env *testenv.Env
	// program is a copy of the test binary that any user may run: with the argument "agent" it is an agent.
	program string
	// networks counts the clusters of this process: each has loopback addresses of its own.
	networks atomic.Int32
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "agent" {
		os.Exit(runProgram())
	}
	dir, err := os.MkdirTemp("", "fettle-postgres-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	program = filepath.Join(dir, "fettle")
	code := 1
	if err := prepare(dir); err != nil {
		fmt.Fprintln(os.Stderr, "test/postgres:", err)
	} else {
		code = m.Run()
	}
	if env != nil {
		_ = env.Stop()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// runProgram is main of the program under test: the test binary itself, so that a change of it is a change of the test.
func runProgram() int {
	if err := cmd.New().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "fettle:", err)
		return 1
	}
	return 0
}

func prepare(dir string) error {
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres"); len(found) == 0 {
		return errors.New("these tests need PostgreSQL: install the package postgresql (Debian), without its service")
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if output, err := exec.Command("cp", self, program).CombinedOutput(); err != nil {
		return fmt.Errorf("copy the program: %w: %s", err, output)
	}
	started, err := testenv.Start(testenv.Options{Fast: true})
	env = started
	return err
}

// cluster is a PostgreSQL with its instances.
type cluster struct {
	t         testing.TB
	client    client.Client
	namespace string
	dir       string
	network   int
	// The ports of all instances; their addresses differ.
	ports     [4]int
	authority *pki.Authority
	instances []*instance
	service   *link
	primary   atomic.Int32 // ordinal that the Service routes to, -1 for none
}

const name = "db"

// instance is a pod.
type instance struct {
	cluster *cluster
	ordinal int
	pod     string
	uid     string
	dir     string
	// api, peers and replication are its ways out.
	api                *link
	peers, replication map[int]*link
	// reached is the way in for clients.
	log *logFile

	mutex   sync.Mutex
	command *exec.Cmd
	ended   chan struct{}
}

type logFile struct {
	mutex sync.Mutex
	bytes.Buffer
}

func (l *logFile) Write(in []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.Buffer.Write(in)
}

func (l *logFile) text() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.String()
}

// newCluster makes the objects that the operator makes, and starts an agent for each instance.
func newCluster(t testing.TB, replicas int, change func(*databasev1alpha1.PostgreSQL)) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, databasev1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(env.Admin, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	out := &cluster{t: t, client: c, namespace: env.Namespace(t), network: os.Getpid()%120 + 100 + int(networks.Add(1))%20}
	out.dir, err = os.MkdirTemp(fastDir(), "fettle-pg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(out.dir) })
	own(t, out.dir)
	out.authority, err = pki.NewAuthority(name, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for i := range out.ports {
		out.ports[i] = freePort(t)
	}
	out.createObjects(replicas, change)
	for ordinal := range replicas {
		out.add(ordinal, replicas)
	}
	out.primary.Store(-1)
	out.service = newLink(t, out.serviceAddress(), func() string {
		if at := int(out.primary.Load()); at >= 0 {
			return out.instances[at].address(0)
		}
		return ""
	})
	go out.route(t.Context())
	t.Cleanup(func() {
		for _, i := range out.instances {
			i.kill()
			if dir := os.Getenv("FETTLE_PG_LOGS"); dir != "" {
				_ = os.WriteFile(filepath.Join(dir, t.Name()+"-"+i.pod+".log"), []byte(i.log.text()), 0o600)
			}
		}
	})
	for _, i := range out.instances {
		i.start()
	}
	return out
}

// fastDir is where data lie: in memory, unless FETTLE_PG_DIR says where else.
func fastDir() string {
	if dir := os.Getenv("FETTLE_PG_DIR"); dir != "" {
		return dir
	}
	if _, err := os.Stat("/dev/shm"); err == nil {
		return "/dev/shm"
	}
	return ""
}

// credential is whom PostgreSQL runs as: not root.
func credential() *syscall.Credential {
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		panic("PostgreSQL does not run as root, and there is no user postgres")
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func own(t testing.TB, path string) {
	t.Helper()
	if c := credential(); c != nil {
		if err := os.Chown(path, int(c.Uid), int(c.Gid)); err != nil {
			t.Fatal(err)
		}
	}
}

func freePort(t testing.TB) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

func (c *cluster) serviceAddress() string { return fmt.Sprintf("127.%d.250.1:%d", c.network, c.ports[0]) }

// createObjects makes the PostgreSQL, its Lease and pods, and the agents' role.
func (c *cluster) createObjects(replicas int, change func(*databasev1alpha1.PostgreSQL)) {
	c.t.Helper()
	pg := &databasev1alpha1.PostgreSQL{}
	pg.Name, pg.Namespace = name, c.namespace
	pg.Spec.Version, pg.Spec.Replicas = "15", new(int32(replicas))
	pg.Spec.Storage.Set(1 << 30)
	pg.Spec.PgHBA = []databasev1alpha1.PostgreSQLHBARule{{Method: "cert", Roles: []databasev1alpha1.Identifier{"ledger"}}}
	if change != nil {
		change(pg)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: c.namespace, Annotations: map[string]string{agent.AnnotationFresh: "true"},
	}}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.namespace}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"database.fettle.dev"}, Resources: []string{"postgresqls"}, ResourceNames: []string{name}, Verbs: []string{"get", "watch"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{name}, Verbs: []string{"get", "watch", "update"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{"db-0", "db-1", "db-2"}, Verbs: []string{"get", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create"}},
	}}
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

// add prepares an instance: its pod, certificates and proxies.
func (c *cluster) add(ordinal, replicas int) {
	c.t.Helper()
	i := &instance{
		cluster: c, ordinal: ordinal, pod: peer.Pod(name, ordinal), dir: filepath.Join(c.dir, strconv.Itoa(ordinal)), log: &logFile{},
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
	server, err := c.authority.Server(append(pki.Hosts(name, c.namespace), "localhost"), time.Now())
	if err == nil {
		var replication pki.Pair
		replication, err = c.authority.Client(pki.Replication, time.Now())
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
			return func() string { return c.instances[to].address(port) }
		}
		i.peers[to] = newLink(c.t, fmt.Sprintf("127.%d.%d.%d:%d", c.network, ordinal, to, c.ports[1]), target(1))
		i.replication[to] = newLink(c.t, fmt.Sprintf("127.%d.%d.%d:%d", c.network, ordinal, to, c.ports[0]), target(0))
	}
	i.writeKubeconfig()
}

// address is where the instance itself listens.
func (i *instance) address(port int) string {
	return fmt.Sprintf("127.%d.200.%d:%d", i.cluster.network, i.ordinal+1, i.cluster.ports[port])
}

func (i *instance) writeCertificate(folder string, pair pki.Pair) {
	i.cluster.t.Helper()
	for file, content := range map[string][]byte{"tls.crt": pair.Certificate, "tls.key": pair.Key, "ca.crt": i.cluster.authority.Certificate} {
		path := filepath.Join(i.dir, "tls", folder, file)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			i.cluster.t.Fatal(err)
		}
		own(i.cluster.t, path)
	}
}

// writeKubeconfig has the agent be the ServiceAccount, over the link that can be cut.
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

// recreatePod makes the pod anew, with another UID.
func (i *instance) recreatePod() {
	c := i.cluster
	c.t.Helper()
	old := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: i.pod, Namespace: c.namespace}}
	_ = c.client.Delete(c.t.Context(), old, client.GracePeriodSeconds(0))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: i.pod, Namespace: c.namespace, Labels: map[string]string{"db": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "postgres", Image: "postgres:15"}}},
	}
	if err := c.client.Create(c.t.Context(), pod); err != nil {
		c.t.Fatal(err)
	}
	i.uid = string(pod.UID)
}

// start starts an agent, as the kubelet starts a container.
func (i *instance) start() {
	i.cluster.t.Helper()
	c := i.cluster
	host, _, _ := net.SplitHostPort(i.address(0))
	command := exec.Command(program, "agent", "--volume", filepath.Join(i.dir, "data"), "--run-dir", filepath.Join(i.dir, "run"),
		"--tls-dir", filepath.Join(i.dir, "tls"), "--bind-address", host, "--debug",
		"--postgres-port", strconv.Itoa(c.ports[0]), "--peer-port", strconv.Itoa(c.ports[1]),
		"--probe-port", strconv.Itoa(c.ports[2]), "--metrics-port", strconv.Itoa(c.ports[3]),
		"--peer-host", fmt.Sprintf("127.%d.%d.{ordinal}", c.network, i.ordinal))
	command.Env = []string{
		"CLUSTER_NAME=" + name, "POD_NAME=" + i.pod, "POD_UID=" + i.uid, "POD_NAMESPACE=" + c.namespace,
		"KUBECONFIG=" + filepath.Join(i.dir, "kubeconfig"), "PATH=" + os.Getenv("PATH"), "HOME=/nonexistent",
	}
	command.Stdout, command.Stderr = i.log, i.log
	command.SysProcAttr = &syscall.SysProcAttr{Credential: credential(), Setpgid: true}
	if err := command.Start(); err != nil {
		c.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = command.Wait()
		close(ended)
	}()
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.command, i.ended = command, ended
}

// pids are the agent and the postmaster, 0 where there is none.
func (i *instance) pids() (agent, postmaster int) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	content, err := os.ReadFile(filepath.Join(i.dir, "data", "pgdata", "postmaster.pid"))
	if err == nil {
		line, _, _ := strings.Cut(string(content), "\n")
		postmaster, _ = strconv.Atoi(line)
	}
	return i.command.Process.Pid, postmaster
}

// family are all processes of the instance.
func (i *instance) family() []int {
	agent, _ := i.pids()
	all := []int{agent}
	entries, _ := filepath.Glob("/proc/[0-9]*")
	for _, entry := range entries {
		pid, _ := strconv.Atoi(filepath.Base(entry))
		if cwd, err := os.Readlink(filepath.Join(entry, "cwd")); err == nil && cwd == filepath.Join(i.dir, "data", "pgdata") {
			all = append(all, pid)
		}
	}
	return all
}

// signal sends one to all processes of the instance.
func (i *instance) signal(signal syscall.Signal) {
	for _, pid := range i.family() {
		_ = syscall.Kill(pid, signal)
	}
}

// kill ends all processes of the instance, as the loss of its node does.
func (i *instance) kill() {
	select {
	case <-i.ended:
	default:
		i.signal(syscall.SIGKILL)
		<-i.ended
	}
	i.signal(syscall.SIGKILL)
}

// stop ends the agent in order, and waits.
func (i *instance) stop() {
	agent, _ := i.pids()
	_ = syscall.Kill(agent, syscall.SIGTERM)
	<-i.ended
}

// cutOff cuts the instance off from the API server and all others, in both directions.
func (i *instance) cutOff(from ...string) {
	for _, l := range i.links(from...) {
		l.Cut()
	}
}

func (i *instance) rejoin() {
	for _, l := range i.links() {
		l.Join()
	}
}

// links are the ways from and to an instance: "api", "peers", "replication"; all by default.
func (i *instance) links(kinds ...string) []*link {
	has := func(kind string) bool { return len(kinds) == 0 || strings.Contains(strings.Join(kinds, " "), kind) }
	var out []*link
	if has("api") {
		out = append(out, i.api)
	}
	for _, other := range i.cluster.instances {
		if other == i {
			continue
		}
		if has("peers") {
			out = append(out, i.peers[other.ordinal], other.peers[i.ordinal])
		}
		if has("replication") {
			out = append(out, i.replication[other.ordinal], other.replication[i.ordinal])
		}
	}
	return out
}

// route follows the pods' labels, as Endpoints do.
func (c *cluster) route(ctx context.Context) {
	for ctx.Err() == nil {
		pods := &corev1.PodList{}
		if err := c.client.List(ctx, pods, client.InNamespace(c.namespace), client.MatchingLabels{databasev1alpha1.LabelRole: databasev1alpha1.LabelRolePrimary}); err == nil {
			at := int32(-1)
			for _, pod := range pods.Items {
				if ordinal, ok := peer.Ordinal(name, pod.Name); ok {
					at = int32(ordinal)
				}
			}
			c.primary.Store(at)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// ask speaks to an agent as the operator does.
func (i *instance) ask() *peer.Client {
	i.cluster.t.Helper()
	pair, err := i.cluster.authority.Client(pki.Operator, time.Now())
	if err != nil {
		i.cluster.t.Fatal(err)
	}
	c, err := peer.NewClient(peer.Host(name, i.cluster.namespace, i.pod), i.address(1), pair, i.cluster.authority.Certificate)
	if err != nil {
		i.cluster.t.Fatal(err)
	}
	return c
}

// status asks an agent; false when it does not answer.
func (i *instance) status() (peer.Status, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	c := i.ask()
	defer c.Close()
	status, err := c.Status(ctx)
	return status, err == nil
}

// probe asks a probe.
func (i *instance) probe(path string) bool {
	host, _, _ := net.SplitHostPort(i.address(0))
	client := &http.Client{Timeout: 2 * time.Second}
	response, err := client.Get(fmt.Sprintf("http://%s:%d%s", host, i.cluster.ports[2], path))
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// lease reads the record of the Lease.
func (c *cluster) lease() (holder string, record map[string]any) {
	c.t.Helper()
	lease := &coordinationv1.Lease{}
	if err := c.client.Get(c.t.Context(), client.ObjectKey{Namespace: c.namespace, Name: name}, lease); err != nil {
		c.t.Fatal(err)
	}
	if lease.Spec.HolderIdentity != nil {
		holder, _, _ = strings.Cut(*lease.Spec.HolderIdentity, "/")
	}
	_ = json.Unmarshal([]byte(lease.Annotations[agent.AnnotationRecord]), &record)
	return holder, record
}

// eventually waits for something that will be.
func (c *cluster) eventually(what string, within time.Duration, is func() bool) {
	c.t.Helper()
	end := time.Now().Add(within)
	for !is() {
		if time.Now().After(end) {
			c.t.Fatalf("after %s still not: %s\n%s", within, what, c.describe())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (c *cluster) describe() string {
	var out strings.Builder
	holder, record := c.lease()
	fmt.Fprintf(&out, "Lease: %s %v\n", holder, record)
	for _, i := range c.instances {
		status, ok := i.status()
		fmt.Fprintf(&out, "%s answers %v: %+v\n", i.pod, ok, status)
	}
	return out.String()
}

// leader is the instance that serves as primary and is routed to, nil while there is none.
func (c *cluster) leader() *instance {
	at := int(c.primary.Load())
	if at < 0 {
		return nil
	}
	status, ok := c.instances[at].status()
	if !ok || status.Role != peer.Primary || !status.Ready || !status.HoldsLease {
		return nil
	}
	return c.instances[at]
}

// settled waits for a primary and for all others to follow it.
func (c *cluster) settled() *instance {
	c.t.Helper()
	var leader *instance
	c.eventually("one primary, all others ready", 2*time.Minute, func() bool {
		if leader = c.leader(); leader == nil {
			return false
		}
		for _, i := range c.instances {
			if status, ok := i.status(); i != leader && (!ok || !status.Ready || !status.Receiver || status.Role != peer.Replica) {
				return false
			}
		}
		return true
	})
	return leader
}
