package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agent"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/pki"
	"github.com/fettle-dev/fettle/internal/testenv"
)

// cluster is a PostgreSQL with its instances.
type cluster struct {
	t         testing.TB
	client    client.Client
	namespace string
	dir       string
	network   int
	// The ports of all instances. Their addresses differ.
	ports     [4]int
	ca        *pki.CA
	instances []*instance
	// prepared instances are set up, but not part of spec.replicas.
	prepared []*instance
	routedTo atomic.Int32 // ordinal that the Service routes to, -1 for none
	deleted  bool         // requests of the agents may be forbidden
}

const name = "db"

// logFile does not embed the buffer: io.Copy would use the buffer's ReadFrom, which takes no lock.
type logFile struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
}

func (l *logFile) Write(in []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.buffer.Write(in)
}

func (l *logFile) text() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.buffer.String()
}

// newCluster creates the operator's objects, and starts an agent for each instance.
func newCluster(t testing.TB, replicas int, change func(*databasev1alpha1.PostgreSQL)) *cluster {
	t.Helper()
	out := newStoppedCluster(t, replicas, replicas, change)
	for _, i := range out.instances {
		i.start()
	}
	return out
}

// newStoppedCluster creates the objects and prepares instances, possibly more than spec.replicas.
func newStoppedCluster(t testing.TB, replicas, prepared int, change func(*databasev1alpha1.PostgreSQL)) *cluster {
	t.Helper()
	c := newClient(t)
	var err error
	out := &cluster{t: t, client: c, namespace: env.Namespace(t), network: os.Getpid()%120 + 100 + int(networks.Add(1))%20}
	out.dir, err = os.MkdirTemp(dataDir(), "fettle-pg-") //nolint:usetesting // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(out.dir) })
	own(t, out.dir)
	out.ca, err = pki.NewCA(name, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	out.ports = freePorts(t)
	out.createObjects(replicas, change)
	for ordinal := range prepared {
		out.add(ordinal, prepared)
	}
	out.instances, out.prepared = out.instances[:replicas], out.instances[replicas:]
	out.routedTo.Store(-1)
	newLink(t, out.serviceAddress(), func() string {
		if at := int(out.routedTo.Load()); at >= 0 {
			return out.address(at, 0)
		}
		return ""
	})
	go out.route(t.Context())
	t.Cleanup(out.checkRBAC(t))
	t.Cleanup(out.end)
	return out
}

// end kills all processes. The logs of the instances are written to the directory FETTLE_PG_LOGS.
func (c *cluster) end() {
	for _, i := range slices.Concat(c.instances, c.prepared) {
		i.kill()
		if _, race, found := strings.Cut(i.log.text(), "WARNING: DATA RACE"); found { // of go test -race
			c.t.Errorf("%s: a data race in the agent: %s", i.pod, race[:min(len(race), 4000)])
		}
		if dir := os.Getenv("FETTLE_PG_LOGS"); dir != "" {
			_ = os.WriteFile(filepath.Join(dir, strings.ReplaceAll(c.t.Name(), "/", "-")+"-"+i.pod+".log"), []byte(i.log.text()), 0o600)
		}
	}
}

func newClient(t testing.TB) client.Client {
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
	return c
}

// variableDir names the directory for data.
const variableDir = "FETTLE_PG_DIR"

// dataDir is the directory for data, by default in memory.
func dataDir() string {
	if dir := os.Getenv(variableDir); dir != "" {
		return dir
	}
	return testenv.MemoryFolder()
}

// credential is the user that PostgreSQL runs as, which is not root.
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

// freePorts are different: each is reserved until all are chosen.
func freePorts(t testing.TB) (ports [4]int) {
	t.Helper()
	for i := range ports {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		ports[i] = listener.Addr().(*net.TCPAddr).Port
	}
	return ports
}

func (c *cluster) serviceAddress() string {
	return fmt.Sprintf("127.%d.250.1:%d", c.network, c.ports[0])
}

// route follows the pods' labels like Endpoints.
func (c *cluster) route(ctx context.Context) {
	for ctx.Err() == nil {
		pods := &corev1.PodList{}
		if err := c.client.List(ctx, pods, client.InNamespace(c.namespace), client.MatchingLabels{databasev1alpha1.LabelRole: databasev1alpha1.LabelRolePrimary}); err == nil {
			at := int32(-1)
			for _, pod := range pods.Items {
				if ordinal, ok := agentapi.Ordinal(name, pod.Name); ok {
					at = int32(ordinal)
				}
			}
			c.routedTo.Store(at)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// lease reads the Lease and its record.
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

// timeout bounds waits that usually take some seconds.
const timeout = 3 * time.Minute

// eventually waits until a condition is true.
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
		fmt.Fprintf(&out, "%s responds: %v, %+v\n", i.pod, ok, status)
		if !ok {
			lines := strings.Split(i.log.text(), "\n")
			fmt.Fprintf(&out, "%s runs: %v, the end of its log:\n%s\n", i.pod, i.runs(), strings.Join(lines[max(0, len(lines)-8):], "\n"))
		}
	}
	return out.String()
}

// primary is the instance that is primary, ready, and routed to by the Service. nil if there is none.
func (c *cluster) primary() *instance {
	at := int(c.routedTo.Load())
	if at < 0 {
		return nil
	}
	status, ok := c.instances[at].status()
	if !ok || status.Role != agentapi.Primary || !status.Ready || !status.HoldsLease {
		return nil
	}
	return c.instances[at]
}

// wantStillPrimary checks that an instance is the primary. A late response of an agent does not count.
func (c *cluster) wantStillPrimary(primary *instance) {
	c.t.Helper()
	c.eventually(primary.pod+" to still be primary", timeout, func() bool { return c.primary() == primary })
}

// waitSettled waits for a primary and for all other instances to stream from it.
func (c *cluster) waitSettled() *instance {
	c.t.Helper()
	var primary *instance
	c.eventually("one primary, all others ready", 2*timeout, func() bool {
		if primary = c.primary(); primary == nil {
			return false
		}
		for _, i := range c.instances {
			if status, ok := i.status(); i != primary && (!ok || !status.Ready || !status.Receiver || status.Role != agentapi.Replica) {
				return false
			}
		}
		return true
	})
	return primary
}
