package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fettle-dev/fettle/hack/cluster/internal/network"
	"github.com/fettle-dev/fettle/hack/cluster/internal/process"
)

// startEtcd starts etcd. If etcd cannot read its data, for example after a power loss, startEtcd deletes the data and
// everything that depends on it, and the cluster starts empty.
func (u *upRun) startEtcd(ctx context.Context, report reporter) (string, error) {
	certs := u.certs.etcd
	cert, err := tls.LoadX509KeyPair(certs.Cert, certs.Key)
	if err != nil {
		return "", fmt.Errorf("read etcd's certificate: %w", err)
	}
	ca := u.certs.ca.CertFile()
	spec := process.Spec{Name: "etcd", Path: filepath.Join(u.bin, "etcd"), Args: []string{
		"--data-dir=" + u.Path("etcd"),
		"--listen-client-urls=" + etcdServer, "--advertise-client-urls=" + etcdServer,
		"--listen-peer-urls=http://127.0.0.1:0", // any free port: there are no peers
		"--cert-file=" + certs.Cert, "--key-file=" + certs.Key, "--client-cert-auth", "--trusted-ca-file=" + ca,
		"--quota-backend-bytes=4294967296",
		// The cluster is for tests: fsync would take about half of the time.
		"--unsafe-no-fsync",
	}}
	ready := httpProbe(etcdServer+"/health", cert)
	_, statErr := os.Stat(u.Path("etcd"))
	started, err := ensure(ctx, u.super, spec, ready, 2*time.Minute)
	if !errors.Is(err, errExited) || statErr != nil || !isDataCorrupt(err.Error()) {
		return startState(started), err
	}
	report("the removal of unreadable etcd data")
	if err := u.resetCluster(ctx); err != nil {
		return "", err
	}
	if _, err := ensure(ctx, u.super, spec, ready, 2*time.Minute); err != nil {
		return "", err
	}
	return "started with empty data: the old data was unreadable", nil
}

// isDataCorrupt reports whether etcd may have exited because of its data, judged by the end of its log. Errors that would
// also stop an etcd without data do not count.
func isDataCorrupt(log string) bool {
	for _, other := range []string{"address already in use", "cannot assign requested address", "no space left on device", "permission denied", "too many open files"} {
		if strings.Contains(log, other) {
			return false
		}
	}
	return true
}

func (u *upRun) startAPIServer(ctx context.Context, _ reporter) (string, error) {
	certs, ca := u.certs, u.certs.ca.CertFile()
	policy, err := renderTo(u.Path("conf", "audit-policy.yaml"), "audit-policy.yaml", nil)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(u.Path("audit"), 0o750); err != nil {
		return "", fmt.Errorf("create the directory of the audit log: %w", err)
	}
	spec := process.Spec{Name: "kube-apiserver", Path: filepath.Join(u.bin, "kube-apiserver"), Version: policy, Args: []string{
		"--bind-address=" + network.HostAddress, "--advertise-address=" + network.HostAddress, "--secure-port=6443",
		"--etcd-servers=" + etcdServer, "--etcd-cafile=" + ca, "--etcd-certfile=" + certs.etcd.Cert, "--etcd-keyfile=" + certs.etcd.Key,
		"--service-cluster-ip-range=" + network.ServiceCIDR,
		"--tls-cert-file=" + certs.apiServer.Cert, "--tls-private-key-file=" + certs.apiServer.Key, "--client-ca-file=" + ca,
		"--service-account-key-file=" + certs.serviceAccountPublic, "--service-account-signing-key-file=" + certs.serviceAccountPrivate,
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged",
		"--kubelet-certificate-authority=" + ca, "--kubelet-preferred-address-types=InternalIP",
		"--kubelet-client-certificate=" + certs.apiClient.Cert, "--kubelet-client-key=" + certs.apiClient.Key,
		"--enable-aggregator-routing",
		"--requestheader-client-ca-file=" + ca, "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + certs.proxy.Cert, "--proxy-client-key-file=" + certs.proxy.Key,
		"--audit-policy-file=" + u.Path("conf", "audit-policy.yaml"), "--audit-log-path=" + u.Path("audit", "audit.log"),
		"--audit-log-maxsize=200", "--audit-log-maxbackup=1",
		"--profiling=false",
	}}
	admin, err := tls.LoadX509KeyPair(certs.apiClient.Cert, certs.apiClient.Key)
	if err != nil {
		return "", fmt.Errorf("read the API server's client certificate: %w", err)
	}
	started, err := ensure(ctx, u.super, spec, httpProbe(apiServer+"/readyz", admin), 4*time.Minute)
	return startState(started), err
}

func (u *upRun) startControllers(ctx context.Context, report reporter) (string, error) {
	ca := u.Path("pki", "ca")
	kubeconfig := func(name string) []string {
		file := u.Path("conf", name+".kubeconfig")
		return []string{"--kubeconfig=" + file, "--authentication-kubeconfig=" + file, "--authorization-kubeconfig=" + file,
			"--leader-elect=false", "--bind-address=127.0.0.1", "--profiling=false", "--kube-api-qps=100", "--kube-api-burst=200"}
	}
	manager := process.Spec{Name: "kube-controller-manager", Path: filepath.Join(u.bin, "kube-controller-manager"),
		Args: append(kubeconfig("kube-controller-manager"),
			"--service-account-private-key-file="+u.certs.serviceAccountPrivate, "--root-ca-file="+ca+".crt",
			"--cluster-signing-cert-file="+ca+".crt", "--cluster-signing-key-file="+ca+".key",
			"--use-service-account-credentials", "--service-cluster-ip-range="+network.ServiceCIDR,
			"--allocate-node-cidrs", "--cluster-cidr="+network.PodRange, "--node-cidr-mask-size=24")}
	scheduler := process.Spec{Name: "kube-scheduler", Path: filepath.Join(u.bin, "kube-scheduler"), Args: kubeconfig("kube-scheduler")}
	report(manager.Name)
	first, err := ensure(ctx, u.super, manager, httpProbe("https://127.0.0.1:10257/healthz"), 4*time.Minute)
	if err != nil {
		return "", err
	}
	report(scheduler.Name)
	second, err := ensure(ctx, u.super, scheduler, httpProbe("https://127.0.0.1:10259/readyz"), 4*time.Minute)
	return startState(first || second), err
}
