package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// auditPolicy logs every completed request, and the start of every watch, without bodies.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
`

// MemoryVariable is the environment variable with the directory for in-memory data of tests.
const MemoryVariable = "FETTLE_TEST_MEMORY"

// MemoryFolder returns an in-memory directory: MemoryVariable or /dev/shm. "" if there is none.
func MemoryFolder() string {
	for _, dir := range []string{os.Getenv(MemoryVariable), "/dev/shm"} {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir
		}
	}
	return ""
}

// launch starts a private control plane with its files in a new temporary directory.
func launch(options Options) (*Env, error) {
	if err := assetsPresent(); err != nil {
		return nil, err
	}
	parent := ""
	if options.Fast {
		parent = MemoryFolder()
	}
	dir, err := os.MkdirTemp(parent, "fettle-testenv-")
	if err != nil {
		return nil, fmt.Errorf("create the directory of the control plane: %w", err)
	}
	control := &envtest.Environment{ControlPlaneStartTimeout: time.Minute, ControlPlaneStopTimeout: 30 * time.Second}
	log, err := configure(control, dir, options.Fast)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if options.Configure != nil {
		options.Configure(control)
	}
	stop := func() error { return errors.Join(control.Stop(), os.RemoveAll(dir)) }
	admin, err := control.Start()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start kube-apiserver and etcd: %w", err), stop())
	}
	env := &Env{Admin: rest.CopyConfig(admin), AuditLog: log, stop: stop}
	if err := env.addUsers(control); err != nil {
		return nil, errors.Join(err, stop())
	}
	return env, nil
}

func assetsPresent() error {
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if dir == "" {
		return errors.New("KUBEBUILDER_ASSETS is not set, so there is no kube-apiserver to test against: " +
			"run `make test`, or export KUBEBUILDER_ASSETS=$(hack/tools/bin kubernetes)")
	}
	for _, binary := range []string{"kube-apiserver", "etcd"} {
		if _, err := os.Stat(filepath.Join(dir, binary)); err != nil {
			return fmt.Errorf("KUBEBUILDER_ASSETS=%s has no %s: build it with `hack/tools/bin kubernetes`: %w", dir, binary, err)
		}
	}
	return nil
}

// configure sets the flags and returns the path of the audit log.
func configure(control *envtest.Environment, dir string, fast bool) (string, error) {
	policy, log := filepath.Join(dir, "audit-policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return "", fmt.Errorf("write the audit policy: %w", err)
	}
	data := filepath.Join(dir, "etcd")
	if err := os.Mkdir(data, 0o700); err != nil {
		return "", fmt.Errorf("create the directory of etcd: %w", err)
	}
	control.ControlPlane.Etcd = &envtest.Etcd{DataDir: data}
	etcd := control.ControlPlane.Etcd.Configure()
	etcd.Set("quota-backend-bytes", "4294967296")
	if fast {
		etcd.Set("unsafe-no-fsync", "true")
	}
	control.ControlPlane.GetAPIServer().Configure().
		Set("audit-policy-file", policy).
		Set("audit-log-path", log).
		Set("audit-log-mode", "blocking").
		Set("audit-log-maxsize", "1024").
		// A test binary may create thousands of Services. The default /24 has room for 254.
		Set("service-cluster-ip-range", "10.96.0.0/12")
	return log, nil
}

func (e *Env) addUsers(control *envtest.Environment) error {
	operator, err := control.AddUser(envtest.User{Name: OperatorUser, Groups: []string{
		"system:serviceaccounts", "system:serviceaccounts:" + OperatorNamespace,
	}}, nil)
	if err != nil {
		return fmt.Errorf("create the operator's user: %w", err)
	}
	dataPlane, err := control.AddUser(envtest.User{Name: "fettle-test:data-plane", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return fmt.Errorf("create the data plane's user: %w", err)
	}
	e.Operator, e.DataPlane = operator.Config(), dataPlane.Config()
	return nil
}
