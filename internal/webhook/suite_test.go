package webhook_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/fettle-dev/fettle/api"
	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/stack"
	"github.com/fettle-dev/fettle/internal/testenv"
	"github.com/fettle-dev/fettle/internal/webhook"
)

var env *testenv.Env

// TestMain starts an API server that calls the webhooks, and a manager that serves them with the operator's own rights.
func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "webhook test:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	log.SetLogger(zap.New(zap.WriteTo(io.Discard)))
	var control *envtest.Environment
	started, err := testenv.Start(testenv.Options{Fast: true, Configure: func(e *envtest.Environment) {
		e.WebhookInstallOptions.Paths = []string{filepath.Join("..", "..", "config", "webhook", "manifests.yaml")}
		control = e
	}})
	if err != nil {
		return 1, err
	}
	defer func() { _ = started.Stop() }()
	env = started
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	mgr, err := newManager(ctx, control.WebhookInstallOptions)
	if err != nil {
		return 1, err
	}
	wg.Go(func() {
		if err := mgr.Start(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "webhook test: manager:", err)
		}
	})
	return m.Run(), nil
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	_ = clientgoscheme.AddToScheme(scheme)
	_ = api.AddToScheme(scheme)
	return scheme
}

func newManager(ctx context.Context, serving envtest.WebhookInstallOptions) (ctrl.Manager, error) {
	mgr, err := ctrl.NewManager(env.Operator, ctrl.Options{
		Scheme:  newScheme(),
		Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: ctrlwebhook.NewServer(ctrlwebhook.Options{
			Host: serving.LocalServingHost, Port: serving.LocalServingPort, CertDir: serving.LocalServingCertDir,
		}),
	})
	if err != nil {
		return nil, err
	}
	return mgr, webhook.Setup(ctx, mgr, stack.Options{})
}

// user is a client that collects the warnings it is given.
type user struct {
	client.Client
	mu       sync.Mutex
	warnings []string
}

func (u *user) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.warnings = append(u.warnings, text)
}

// warned returns the warnings since it was last called.
func (u *user) warned() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := strings.Join(u.warnings, "\n")
	u.warnings = nil
	return all
}

func newUser(t *testing.T) *user {
	t.Helper()
	u := &user{}
	config := rest.CopyConfig(env.Admin)
	config.WarningHandlerWithContext = u
	c, err := client.New(config, client.Options{Scheme: newScheme()})
	if err != nil {
		t.Fatal(err)
	}
	u.Client = c
	return u
}

func newApp(namespace, name string) *appsv1.WebApp {
	return &appsv1.WebApp{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       appsv1.WebAppSpec{Image: "nginx:1.25"},
	}
}

// newPolicy makes a policy for one namespace, and waits until the webhook knows it: a dry run is then answered as want says.
func newPolicy(t *testing.T, u *user, namespace string, spec appsv1.WebAppPolicySpec) *appsv1.WebAppPolicy {
	t.Helper()
	spec.NamespaceSelector.MatchLabels = map[string]string{"kubernetes.io/metadata.name": namespace}
	p := &appsv1.WebAppPolicy{ObjectMeta: metav1.ObjectMeta{Name: "policy-" + namespace}, Spec: spec}
	eventually(t, "the webhooks answer", func() error { return u.Create(t.Context(), p) })
	t.Cleanup(func() { _ = u.Delete(context.Background(), p) })
	eventually(t, "the webhook knows the policy", func() error {
		u.warned()
		probe := newApp(namespace, "probe")
		probe.Spec.Image, probe.Spec.Replicas = "probe.invalid/probe", new(int32(9999))
		err := u.Create(t.Context(), probe, client.DryRunAll)
		if text := u.warned() + fmt.Sprint(err); !strings.Contains(text, p.Name) {
			return fmt.Errorf("it says %s", text)
		}
		return nil
	})
	u.warned()
	return p
}

func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	t.Fatalf("%s: not after 20 s: %v", what, err)
}

func seedRules() appsv1.WebAppPolicySpec {
	return appsv1.WebAppPolicySpec{
		Action: appsv1.ActionEnforce, MaxReplicas: new(int32(10)), RequireLimits: true,
		AllowedRegistries: []string{"registry.company.com/"},
	}
}
