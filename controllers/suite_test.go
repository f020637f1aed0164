// Package controllers_test holds the behaviour of the operator, seen through the API of a real API server. One manager runs
// all controllers, as the operator's ordinary identity with the role that ships, and one fake data plane rolls out Deployments.
// `make test` runs the specs in several processes (ginkgo -procs). Each has its own API server, manager and data plane.
package controllers_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/fettle-dev/fettle/api"
	"github.com/fettle-dev/fettle/controllers"
	"github.com/fettle-dev/fettle/internal/cache"
	"github.com/fettle-dev/fettle/internal/monitoring"
	"github.com/fettle-dev/fettle/internal/testenv"
	"github.com/fettle-dev/fettle/test/audit"
	"github.com/fettle-dev/fettle/test/specs"
)

const (
	// soon is how long a change may take to arrive on a busy machine; a held-back status included. It is shorter than the minute
	// after which databases are reconciled without an event.
	soon = 45 * time.Second
	poll = 50 * time.Millisecond
	// still is how long nothing must happen for a test to believe that nothing does.
	still = 1500 * time.Millisecond
	// agentImage is what databases get their agent from.
	agentImage = "ghcr.io/fettle-dev/fettle:test"
	// operatorNamespace is where the operator would be.
	operatorNamespace = "default"
)

var (
	env             *testenv.Env
	user            client.WithWatch // what a user with all rights sees and does
	fakeKubelet     *testenv.DataPlane
	auditRecorder   *audit.Recorder
	runningOperator *operator
)

func TestMain(m *testing.M) {
	testenv.Main(m, &env, testenv.Options{Fast: true, Private: true})
}

func TestControllers(t *testing.T) {
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(soon)
	SetDefaultEventuallyPollingInterval(poll)
	SetDefaultConsistentlyDuration(still)
	SetDefaultConsistentlyPollingInterval(poll)
	specs.Run(t, true, "Controllers")
}

var _ = BeforeSuite(func() {
	ctrl.SetLogger(zap.New(zap.WriteTo(io.MultiWriter(GinkgoWriter, operatorOutput)), zap.UseDevMode(true)))
	ctx, cancel := context.WithCancel(context.Background())
	DeferCleanup(cancel)
	var err error
	user, err = client.NewWithWatch(env.Admin, client.Options{Scheme: newScheme()})
	Expect(err).NotTo(HaveOccurred())
	fakeKubelet, err = env.StartDataPlane(ctx)
	Expect(err).NotTo(HaveOccurred())
	auditRecorder, err = audit.New(env.AuditLog, env.Admin)
	Expect(err).NotTo(HaveOccurred())
	operatorOutput.listen(ctx)
	sinceStart = countRequests(ctx, "")
	runningOperator = &operator{}
	runningOperator.start()
	DeferCleanup(runningOperator.stop)
})

var _ = AfterSuite(func(ctx context.Context) {
	if runningOperator == nil {
		return // BeforeSuite has failed
	}
	reportRights(ctx)
	expectNoLeaks(ctx)
})

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientscheme.AddToScheme, apiextensionsv1.AddToScheme, api.AddToScheme,
	} {
		Expect(add(scheme)).To(Succeed())
	}
	return scheme
}

// operator is the manager with all controllers, which can be restarted.
type operator struct {
	unwatched bool   // --watch-secrets=false
	plain     bool   // --grafana-dashboards=false
	image     string // the operator's own, agentImage if empty
	registry  *prometheus.Registry
	lines     *lineCounter
	cancel    context.CancelFunc
	ended     chan error
}

func (o *operator) start() {
	GinkgoHelper()
	o.registry, o.lines = prometheus.NewRegistry(), &lineCounter{}
	watched, err := cache.Options(nil)
	Expect(err).NotTo(HaveOccurred())
	mgr, err := ctrl.NewManager(rejecting.wrap(env.Operator), ctrl.Options{
		Scheme:   newScheme(),
		Cache:    watched,
		NewCache: cache.New(!o.unwatched),
		Logger:   zap.New(zap.WriteTo(o.lines), zap.UseDevMode(false)),
		Metrics:  metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{
			SkipNameValidation: new(true), ReconciliationTimeout: time.Minute, EnableWarmup: new(true),
		},
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(controllers.Setup(mgr, controllers.Options{
		Workers: 5, WatchSecrets: !o.unwatched, Webhooks: true, Metrics: monitoring.New(o.registry, true),
		AgentImage: cmp.Or(o.image, agentImage), Dashboards: !o.plain, OperatorNamespace: operatorNamespace,
	})).To(Succeed())
	ctx, cancel := context.WithCancel(context.Background())
	o.cancel, o.ended = cancel, make(chan error, 1)
	go func() { o.ended <- mgr.Start(ctx) }()
	Expect(mgr.GetCache().WaitForCacheSync(ctx)).To(BeTrue())
}

func (o *operator) stop() {
	GinkgoHelper()
	o.cancel()
	Eventually(o.ended, "40s").Should(Receive(BeNil()))
}

func (o *operator) restart() {
	GinkgoHelper()
	o.stop()
	o.start()
}

// lineCounter passes the operator's log on, and counts its lines.
type lineCounter struct {
	mu    sync.Mutex
	count int
}

// Write implements io.Writer; the logger calls it once for each line.
func (l *lineCounter) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	if _, err := operatorOutput.Write(line); err != nil {
		return 0, err
	}
	return fmt.Fprint(GinkgoWriter, string(line))
}

func (l *lineCounter) lines() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}
