package monitoring

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// Kinds, whose metrics start with their name in lower case.
const (
	KindAppConfig  = "AppConfig"
	KindPostgreSQL = "PostgreSQL"
	KindWebApp     = "WebApp"
	KindVoteConfig = "VoteConfig"
	// KindWebAppPolicy is of the cluster: the label namespace of its metrics is empty.
	KindWebAppPolicy = "WebAppPolicy"
)

// Values of the label result.
const (
	resultSuccess = "success"
	resultError   = "error"
)

// Metrics counts what the reconcilers do. Its methods may be called from several goroutines, and on nil, where they do
// nothing.
type Metrics struct {
	kinds         map[string]*family
	configChanges *prometheus.CounterVec
	appConfigs    *prometheus.CounterVec
	agentOutdated *prometheus.GaugeVec
	ready         *prometheus.GaugeVec // nil unless series for each object were asked for

	mu sync.Mutex
	// tracked are the names of the objects that were counted, by namespace and kind: the last to go takes the
	// namespace's series along.
	tracked map[scope]map[string]struct{}
}

type scope struct{ kind, namespace string }

// family is what is counted for one kind; all its series have the label namespace.
type family struct {
	reconciles *prometheus.CounterVec
	errors     *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	creation   *prometheus.HistogramVec
}

// New registers the metrics. With perObject there is also fettle_resource_ready{kind,namespace,name}, whose number of
// series grows with the number of objects.
func New(reg prometheus.Registerer, perObject bool) *Metrics {
	m := &Metrics{
		kinds: map[string]*family{
			KindAppConfig:  newFamily("appconfig", KindAppConfig),
			KindPostgreSQL: newFamily("postgresql", KindPostgreSQL),
			KindWebApp:     newFamily("webapp", KindWebApp),
			KindVoteConfig: newFamily("voteconfig", KindVoteConfig),

			KindWebAppPolicy: newFamily("webapppolicy", KindWebAppPolicy),
		},
		configChanges: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fettle_config_changes_total",
			Help: "Rollouts that were started because the configuration changed that the pods use.",
		}, []string{"namespace"}),
		appConfigs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "appconfig_changes_total",
			Help: "Publications of an AppConfig that replaced other contents.",
		}, []string{"namespace"}),
		agentOutdated: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "fettle_postgresql_agent_outdated",
			Help: "Instances of the PostgreSQL whose agent is of another image than the operator's; absent where there are none.",
		}, []string{"namespace", "name"}),
		tracked: map[scope]map[string]struct{}{},
	}
	reg.MustRegister(m.configChanges, m.appConfigs, m.agentOutdated)
	for _, f := range m.kinds {
		reg.MustRegister(f.reconciles, f.errors, f.duration, f.creation)
	}
	if perObject {
		m.ready = prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "fettle_resource_ready",
			Help: "1 where the condition Ready of the object is True, else 0.",
		}, []string{"kind", "namespace", "name"})
		reg.MustRegister(m.ready)
	}
	return m
}

func newFamily(prefix, kind string) *family {
	return &family{
		reconciles: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "_reconcile_total",
			Help: "Reconciliations of " + kind + "s; result is success or error.",
		}, []string{"namespace", "result"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "_errors_total",
			Help: "Reconciliations of " + kind + "s that failed; type is conflict, invalid, forbidden, throttled, timeout or other.",
		}, []string{"namespace", "type"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    prefix + "_reconcile_duration_seconds",
			Help:    "Time that one reconciliation of a " + kind + " took.",
			Buckets: []float64{0.1, 0.5, 1, 2.5, 5, 10},
		}, []string{"namespace"}),
		creation: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    prefix + "_creation_duration_seconds",
			Help:    "Time from the creation of a " + kind + " until it was Ready for the first time.",
			Buckets: []float64{1, 5, 10, 30, 60, 120, 300},
		}, []string{"namespace"}),
	}
}

// Observe counts one reconciliation of an object that exists, which took d and ended with err.
func (m *Metrics) Observe(kind string, key types.NamespacedName, d time.Duration, err error) {
	m.count(kind, key, func(f *family) {
		f.duration.WithLabelValues(key.Namespace).Observe(d.Seconds())
		if err == nil {
			f.reconciles.WithLabelValues(key.Namespace, resultSuccess).Inc()
			return
		}
		f.reconciles.WithLabelValues(key.Namespace, resultError).Inc()
		f.errors.WithLabelValues(key.Namespace, ErrorType(err)).Inc()
	})
}

// Created counts an object that became Ready for the first time, d after its creation. Call it once for each object.
func (m *Metrics) Created(kind string, key types.NamespacedName, d time.Duration) {
	m.count(kind, key, func(f *family) {
		f.creation.WithLabelValues(key.Namespace).Observe(d.Seconds())
	})
}

// ConfigChanged counts a rollout that was started because something that the object refers to changed.
func (m *Metrics) ConfigChanged(kind string, key types.NamespacedName) {
	m.count(kind, key, func(*family) { m.configChanges.WithLabelValues(key.Namespace).Inc() })
}

// AppConfigChanged counts a publication that replaced the contents of an earlier one.
func (m *Metrics) AppConfigChanged(key types.NamespacedName) {
	m.count(KindAppConfig, key, func(*family) { m.appConfigs.WithLabelValues(key.Namespace).Inc() })
}

// Ready says whether the object is Ready. It does nothing unless series for each object were asked for.
func (m *Metrics) Ready(kind string, key types.NamespacedName, ready bool) {
	if m == nil || m.ready == nil {
		return
	}
	value := 0.0
	if ready {
		value = 1
	}
	m.ready.WithLabelValues(kind, key.Namespace, key.Name).Set(value)
}

// AgentOutdated sets how many instances of a PostgreSQL have another agent than the operator's.
func (m *Metrics) AgentOutdated(key types.NamespacedName, instances int) {
	switch {
	case m == nil:
	case instances == 0:
		m.agentOutdated.DeleteLabelValues(key.Namespace, key.Name)
	default:
		m.agentOutdated.WithLabelValues(key.Namespace, key.Name).Set(float64(instances))
	}
}

// Gone forgets an object. Call it from the reconciliation that does not find the object any more: the queue runs only
// one reconciliation of an object at a time, so that no other brings its series back.
func (m *Metrics) Gone(kind string, key types.NamespacedName) {
	if m == nil {
		return
	}
	if m.ready != nil {
		m.ready.DeleteLabelValues(kind, key.Namespace, key.Name)
	}
	if kind == KindPostgreSQL {
		m.agentOutdated.DeleteLabelValues(key.Namespace, key.Name)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	at := scope{kind: kind, namespace: key.Namespace}
	delete(m.tracked[at], key.Name)
	if len(m.tracked[at]) > 0 {
		return
	}
	delete(m.tracked, at)
	gone := prometheus.Labels{"namespace": key.Namespace}
	if f := m.kinds[kind]; f != nil {
		f.reconciles.DeletePartialMatch(gone)
		f.errors.DeletePartialMatch(gone)
		f.duration.DeletePartialMatch(gone)
		f.creation.DeletePartialMatch(gone)
	}
	if kind == KindAppConfig {
		m.appConfigs.DeletePartialMatch(gone)
	}
	if !m.tracks(key.Namespace) {
		m.configChanges.DeletePartialMatch(gone)
	}
}

// count runs add with the metrics of the kind, if it has any, and remembers the object. The lock is held meanwhile, so
// that a namespace's series are not dropped between the two.
func (m *Metrics) count(kind string, key types.NamespacedName, add func(*family)) {
	if m == nil {
		return
	}
	f := m.kinds[kind]
	if f == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	at := scope{kind: kind, namespace: key.Namespace}
	if m.tracked[at] == nil {
		m.tracked[at] = map[string]struct{}{}
	}
	m.tracked[at][key.Name] = struct{}{}
	add(f)
}

// tracks says whether any kind has objects in the namespace; the lock is held by the caller.
func (m *Metrics) tracks(namespace string) bool {
	for kind := range m.kinds {
		if len(m.tracked[scope{kind: kind, namespace: namespace}]) > 0 {
			return true
		}
	}
	return false
}
