// Package testenv gives tests a real API server: kube-apiserver and etcd on loopback, Fettle's CustomResourceDefinitions,
// an audit log, and the operator's user with exactly its shipped permissions. Nothing else of a cluster runs: no garbage
// collector, no Deployment controller and no kubelet. DataPlane is a small fake of the last two.
package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Identity of the operator, as in a real cluster.
const (
	OperatorNamespace = "fettle-system"
	operatorAccount   = "fettle-controller-manager"
	OperatorUser      = "system:serviceaccount:" + OperatorNamespace + ":" + operatorAccount
)

// Options of an environment. The zero value installs Fettle's CRDs and grants config/rbac to the operator.
type Options struct {
	// CRDPaths are directories or files with more CRDs. Relative paths start at the test's working directory.
	CRDPaths []string
	// NoProject leaves out the project's CRDs and roles, for tests with their own.
	NoProject bool
	// Rules are granted to the operator cluster-wide, in addition to config/rbac.
	Rules []rbacv1.PolicyRule
	// Fast keeps etcd in memory without fsync. Do not use it for performance measurements.
	Fast bool
	// Private starts a separate API server even if test binaries share one. Use it for operators that watch all namespaces,
	// and for tests of permissions.
	Private bool
	// Configure changes the control plane before it starts, for example to install webhooks. It implies Private.
	Configure func(*envtest.Environment)
}

// Env is a running API server for tests.
type Env struct {
	// Admin bypasses authorization. Use it for actions of users and test code, never for the operator.
	Admin *rest.Config
	// Operator is OperatorUser with the permissions of config/rbac, without a client-side rate limit.
	Operator *rest.Config
	// DataPlane is the user of DataPlane, so that the audit log distinguishes it from the operator and the test.
	DataPlane *rest.Config
	// AuditLog is the path of the API server's audit log (level Metadata).
	AuditLog string

	stop func() error
	next atomic.Int64
}

// Start starts an API server, or joins the one of `testenv/shared-apiserver`.
func Start(options Options) (*Env, error) {
	env, err := startOrJoin(options)
	if err != nil {
		return nil, err
	}
	agent := fmt.Sprintf("%s/%d", filepath.Base(os.Args[0]), os.Getpid())
	for config, who := range map[*rest.Config]string{env.Admin: "user", env.Operator: "operator", env.DataPlane: "data-plane"} {
		config.QPS, config.Burst = -1, 0
		config.UserAgent = agent + "/" + who
	}
	if err := env.prepare(context.Background(), options); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare the test environment: %w", err), env.Stop())
	}
	return env, nil
}

func startOrJoin(options Options) (*Env, error) {
	if dir := os.Getenv(SharedVariable); dir != "" && !options.Private && options.Configure == nil {
		return join(dir)
	}
	return launch(options)
}

// Stop stops what Start started. A shared API server keeps running.
func (e *Env) Stop() error {
	if e == nil || e.stop == nil {
		return nil
	}
	return e.stop()
}

// Main is a TestMain: it starts one environment for the test binary, stores it in *env, runs the tests and exits.
func Main(m *testing.M, env **Env, options Options) {
	started, err := Start(options)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		os.Exit(1)
	}
	*env = started
	code := m.Run()
	if err := started.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "testenv: stop:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// Namespace creates a unique namespace. It is not deleted: no namespace controller runs here.
func (e *Env) Namespace(t testing.TB) string {
	t.Helper()
	name, err := e.NewNamespace(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// NewNamespace is Namespace for callers without a test. The name starts with prefix.
func (e *Env) NewNamespace(ctx context.Context, prefix string) (string, error) {
	namespaces, err := kubernetes.NewForConfig(e.Admin)
	if err != nil {
		return "", fmt.Errorf("client for the test's user: %w", err)
	}
	name := fmt.Sprintf("%s-%s-%d", prefix, rand.String(5), e.next.Add(1))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := namespaces.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return "", fmt.Errorf("create namespace %s: %w", name, err)
	}
	return name, nil
}

// DropNamespace removes an empty namespace, like the namespace controller. Use it in tests that create thousands of
// namespaces, because a controller may watch them all.
func (e *Env) DropNamespace(ctx context.Context, name string) error {
	namespaces, err := kubernetes.NewForConfig(e.Admin)
	if err != nil {
		return fmt.Errorf("client for the test's user: %w", err)
	}
	if err := namespaces.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete namespace %s: %w", name, err)
	}
	_, err = namespaces.CoreV1().Namespaces().Finalize(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("finalize namespace %s: %w", name, err)
	}
	return nil
}

func (e *Env) prepare(ctx context.Context, options Options) error {
	crds := envtest.CRDInstallOptions{Paths: options.CRDPaths, ErrorIfPathMissing: true}
	var roles []string
	if !options.NoProject {
		root, err := projectRoot()
		if err != nil {
			return err
		}
		crds.Paths = append(crds.Paths, filepath.Join(root, "config", "crd", "bases"))
		roles, err = roleFiles(root)
		if err != nil {
			return err
		}
	}
	if len(crds.Paths) > 0 {
		if _, err := envtest.InstallCRDs(e.Admin, crds); err != nil {
			return fmt.Errorf("install CRDs from %s: %w", strings.Join(crds.Paths, ", "), err)
		}
	}
	return e.grant(ctx, roles, options.Rules)
}

// projectRoot walks up from the working directory, which `go test` sets to the package's directory.
func projectRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "PROJECT")); err == nil {
			return at, nil
		}
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at, nil
		}
	}
	return "", fmt.Errorf("%s is not inside the project: no go.mod above it", dir)
}
