package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// shutdownLimit is how long a controller may take to stop on a busy machine.
const shutdownLimit = 20 * time.Second

// operator runs the controller's processes one after another until ctx ends.
type operator struct {
	scenario  *Scenario
	config    *rest.Config
	mapper    meta.RESTMapper
	namespace string
	requests  *requestLog

	mu       sync.Mutex
	problems []string  // of O5
	log      []string  // last lines
	failed   time.Time // when a reconcile returned an error last
}

// run returns when the last process has ended.
func (l *operator) run(ctx context.Context) {
	for number := 1; ctx.Err() == nil; number++ {
		life, cancel := context.WithCancel(ctx)
		i := &operatorProcess{requests: l.requests, number: number, stop: cancel}
		err := l.runProcess(life, i)
		cancel()
		if err != nil && !i.dead.Load() && ctx.Err() == nil {
			l.problem("the manager exited: " + err.Error())
			return
		}
		if err != nil && strings.Contains(err.Error(), "grace period") {
			l.problem("still running " + shutdownLimit.String() + " after it was stopped: " + err.Error())
		}
	}
}

func (l *operator) runProcess(ctx context.Context, i *operatorProcess) error {
	clientConfig := rest.CopyConfig(l.config)
	// The default for built-in kinds is protobuf, which requestLog cannot read.
	clientConfig.ContentType, clientConfig.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	clientConfig.Wrap(func(next http.RoundTripper) http.RoundTripper {
		i.next = next
		return i
	})
	options := l.scenario.Cache
	options.DefaultNamespaces = map[string]cache.Config{l.namespace: {}}
	options.ByObject = maps.Clone(options.ByObject) // the manager sets defaults
	kind, err := l.mapper.KindFor(l.scenario.Primary)
	if err != nil {
		return fmt.Errorf("kind of the scenario: %w", err)
	}
	mgr, err := manager.New(clientConfig, manager.Options{
		Scheme: l.scenario.Scheme, Cache: options, NewCache: l.scenario.NewCache, Logger: l.logger(i.number, kind.Kind),
		MapperProvider:          func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return l.mapper, nil },
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:  "0",
		Controller:              config.Controller{SkipNameValidation: new(true)},
		GracefulShutdownTimeout: new(shutdownLimit),
	})
	if err != nil {
		return fmt.Errorf("create manager: %w", err)
	}
	if err := l.scenario.Setup(mgr, l.namespace); err != nil {
		return fmt.Errorf("set up controllers: %w", err)
	}
	if err := mgr.Start(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// logger keeps the last lines for a report. It records panics, from which the controller's workers recover, and the start of the workers of
// a kind.
func (l *operator) logger(incarnation int, kind string) logr.Logger {
	working := fmt.Sprintf(`"controllerKind"=%q`, kind)
	return funcr.New(func(prefix, args string) {
		line := prefix + " " + args
		if strings.Contains(line, `"Starting workers"`) && strings.Contains(line, working) {
			l.requests.workersStarted(incarnation)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if strings.Contains(line, `"Reconciler error"`) {
			l.failed = time.Now()
		}
		if strings.Contains(line, "[recovered]") || strings.Contains(line, "Observed a panic") {
			l.problems = append(l.problems, "panic: "+firstLine(line))
		}
		if l.log = append(l.log, line); len(l.log) > 20 {
			l.log = l.log[1:]
		}
	}, funcr.Options{})
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line[:min(len(line), 500)]
}

func (l *operator) problem(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.problems = append(l.problems, text)
}

// sinceLastError is the time since a reconcile returned an error.
func (l *operator) sinceLastError() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.failed)
}

func (l *operator) results() (problems, log []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.problems, l.log
}
