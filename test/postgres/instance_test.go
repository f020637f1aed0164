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

// instance is a pod with its agent.
type instance struct {
	cluster *cluster
	ordinal int
	pod     string
	uid     string
	dir     string
	// api, peers and replication are the outgoing connections.
	api                *link
	peers, replication map[int]*link
	// log is the output of the agent.
	log *logFile

	mutex   sync.Mutex
	command *exec.Cmd
	ended   chan struct{}
}

// recreatePod re-creates the pod, with another UID.
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

// start starts an agent, like a kubelet.
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

// pids are the PIDs of agent and postmaster, 0 if there is none.
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

// watchdogs are the watchdog processes of the agent. A child that has not executed its program yet has the agent's command line, and must
// not be stopped: the agent waits for it in vfork.
func (i *instance) watchdogs() (all []int) {
	agent, _ := i.pids()
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", agent))
	for _, task := range tasks {
		children, _ := os.ReadFile(task)
		for child := range strings.FieldsSeq(string(children)) {
			if line, _ := os.ReadFile(filepath.Join("/proc", child, "cmdline")); strings.HasPrefix(string(line), "fettle-watchdog\x00") {
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

// signal signals all processes of the instance.
func (i *instance) signal(signal syscall.Signal) {
	for _, pid := range i.allProcesses() {
		_ = syscall.Kill(pid, signal)
	}
}

// kill kills all processes of the instance, like the loss of its node.
func (i *instance) kill() {
	if i.runs() {
		i.signal(syscall.SIGKILL)
		<-i.ended
	}
	for _, pid := range i.servers() { // not the agent: its PID may be another process now
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// runs reports whether the agent was started and has not ended.
func (i *instance) runs() bool {
	select {
	case <-i.ended:
		return false
	default:
		return i.ended != nil
	}
}

// stop stops the agent gracefully, and waits.
func (i *instance) stop() {
	agent, _ := i.pids()
	_ = syscall.Kill(agent, syscall.SIGTERM)
	<-i.ended
}

// disconnect cuts connections from and to the instance, in both directions.
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

// links are the connections from and to an instance: "api", "peers", "replication". Defaults to all.
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

// agentClient is a client for the agent with the operator's certificate.
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

// status returns the agent's status. It is false if the agent does not respond.
func (i *instance) status() (agentapi.Status, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	c := i.agentClient()
	defer c.Close()
	status, err := c.Status(ctx)
	return status, err == nil
}

// probe returns whether a probe passes.
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
