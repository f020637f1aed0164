package postgres

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/pki"
)

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
		"--tls-dir", filepath.Join(i.dir, "tls"), "--source-dir", filepath.Join(i.dir, "source"), "--bind-address", host, "--debug",
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

// watchdogs are the processes that the agent keeps beside it.
func (i *instance) watchdogs() (all []int) {
	agent, _ := i.pids()
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", agent))
	for _, task := range tasks {
		children, _ := os.ReadFile(task)
		for child := range strings.FieldsSeq(string(children)) {
			if self, _ := os.Readlink(filepath.Join("/proc", child, "exe")); self == program {
				pid, _ := strconv.Atoi(child)
				all = append(all, pid)
			}
		}
	}
	return all
}

// servers are the processes of PostgreSQL.
func (i *instance) servers() (all []int) {
	entries, _ := filepath.Glob("/proc/[0-9]*")
	for _, entry := range entries {
		pid, _ := strconv.Atoi(filepath.Base(entry))
		if cwd, err := os.Readlink(filepath.Join(entry, "cwd")); err == nil && cwd == filepath.Join(i.dir, "data", "pgdata") {
			all = append(all, pid)
		}
	}
	return all
}

// allProcesses are all processes of the instance.
func (i *instance) allProcesses() []int {
	agent, _ := i.pids()
	return append(append([]int{agent}, i.watchdogs()...), i.servers()...)
}

// signal sends one to all processes of the instance.
func (i *instance) signal(signal syscall.Signal) {
	for _, pid := range i.allProcesses() {
		_ = syscall.Kill(pid, signal)
	}
}

// kill ends all processes of the instance, as the loss of its node does.
func (i *instance) kill() {
	if i.ended == nil {
		return // it was never started
	}
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

// disconnect cuts the instance off from the API server and all others, in both directions.
func (i *instance) disconnect(from ...string) {
	for _, l := range i.links(from...) {
		l.Cut()
	}
}

func (i *instance) reconnect() {
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

// agentClient speaks to an agent as the operator does.
func (i *instance) agentClient() *agentapi.Client {
	i.cluster.t.Helper()
	pair, err := i.cluster.ca.Client(pki.Operator, time.Now())
	if err != nil {
		i.cluster.t.Fatal(err)
	}
	c, err := agentapi.NewClient(agentapi.Host(name, i.cluster.namespace, i.pod), i.address(1), pair, i.cluster.ca.Certificate)
	if err != nil {
		i.cluster.t.Fatal(err)
	}
	return c
}

// status asks an agent; false when it does not answer.
func (i *instance) status() (agentapi.Status, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	c := i.agentClient()
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
