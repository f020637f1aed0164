package apply

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/fettle-dev/fettle/internal/testenv"
)

// fieldOwner is the field manager of the tests.
const fieldOwner = "webapp"

var stopServer = func() error { return nil }

func TestMain(m *testing.M) {
	code := m.Run()
	if err := stopServer(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the API server:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// apiServer starts or joins a real API server, once.
var apiServer = sync.OnceValues(func() (*rest.Config, error) {
	env, err := testenv.Start(testenv.Options{Fast: true, NoProject: true})
	if err != nil {
		return nil, err
	}
	stopServer = env.Stop
	return env.Admin, nil
})

// sharedManager is the shared state of this package's tests: a running manager whose requests are recorded.
type sharedManager struct {
	config   *rest.Config
	manager  manager.Manager
	admin    client.Client
	requests *requests
}

var shared = sync.OnceValues(func() (*sharedManager, error) {
	config, err := apiServer()
	if err != nil {
		return nil, fmt.Errorf("start an API server (KUBEBUILDER_ASSETS names the folder of its binaries): %w", err)
	}
	w := &sharedManager{config: rest.CopyConfig(config), requests: &requests{}}
	w.config.QPS = -1
	if w.admin, err = client.New(w.config, client.Options{Scheme: scheme.Scheme}); err != nil {
		return nil, err
	}
	recorded := rest.CopyConfig(w.config)
	recorded.Wrap(w.requests.transport)
	ours, err := labels.Parse("app.kubernetes.io/managed-by=fettle")
	if err != nil {
		return nil, err
	}
	w.manager, err = ctrl.NewManager(recorded, manager.Options{
		Scheme:  scheme.Scheme,
		Metrics: server.Options{BindAddress: "0"},
		Cache: cache.Options{
			DefaultTransform:     cache.TransformStripManagedFields(),
			DefaultLabelSelector: ours,
		},
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.manager.Start(ctx) }()
	stop := stopServer
	stopServer = func() error {
		cancel()
		if err := <-ended; err != nil {
			return err
		}
		return stop()
	}
	if !w.manager.GetCache().WaitForCacheSync(ctx) {
		return nil, fmt.Errorf("the cache did not start")
	}
	return w, nil
})

// fixture is the state of one test: a namespace, an owner in it, and an Applier.
type fixture struct {
	*sharedManager
	*Applier
	t       *testing.T
	name    string
	counted int
	owner   client.Object
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	if testing.Short() {
		t.Skip("needs an API server")
	}
	w, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "apply-"}}
	if err := w.admin.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	f := &fixture{sharedManager: w, t: t, name: ns.Name, owner: newOwner(ns.Name, "web")}
	if err := w.admin.Create(t.Context(), f.owner); err != nil {
		t.Fatal(err)
	}
	f.restart()
	return f
}

// newOwner returns an object without behaviour.
func newOwner(namespace, name string) client.Object {
	return &corev1.PodTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "none", Image: "none"}},
		}},
	}
}

// restart replaces the Applier by one without expectations.
func (f *fixture) restart() {
	f.t.Helper()
	a, err := New(f.manager, fieldOwner)
	if err != nil {
		f.t.Fatal(err)
	}
	f.Applier = a
}
