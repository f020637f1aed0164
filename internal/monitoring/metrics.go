package monitoring

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-dev/fettle/internal/apply"
)

// Kinds. Their metrics start with the kind in lower case.
const (
	KindAppConfig  = "AppConfig"
	KindPostgreSQL = "PostgreSQL"
	KindWebApp     = "WebApp"
	KindVoteConfig = "VoteConfig"
	KindBackup     = "Backup"
	KindBackupRun  = "BackupRun"
	KindRestore    = "Restore"
	KindAppStack   = "AppStack"
	// KindEcommercePlatform is expanded into an AppStack.
	KindEcommercePlatform = "EcommercePlatform"
	// KindWebAppPolicy is cluster-scoped: the label namespace of its metrics is empty.
	KindWebAppPolicy = "WebAppPolicy"
)

// Values of the label result.
const (
	resultSuccess = "success"
	resultError   = "error"
)

// Metrics counts what the reconcilers do. Its methods are safe for concurrent use, and do nothing on nil.
type Metrics struct {
	kinds         map[string]*kindMetrics
	configChanges *prometheus.CounterVec
	appConfigs    *prometheus.CounterVec
	agentOutdated *prometheus.GaugeVec
	backups       *backupMetrics
	ready         *prometheus.GaugeVec // nil unless series for each object were asked for

	mu sync.Mutex
	// tracked are the names of the counted objects, by kind and namespace. The last object of a namespace removes its
	// series.
	tracked map[scope]map[string]struct{}
}

type scope struct{ kind, namespace string }

// kindMetrics are the metrics of one kind. All have the label namespace.
type kindMetrics struct {
	reconciles *prometheus.CounterVec
	errors     *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	creation   *prometheus.HistogramVec
}

// New registers the metrics. With perObject it adds fettle_resource_ready{kind,namespace,name}, which has a series for each
// object.
func New(reg prometheus.Registerer, perObject bool) *Metrics {
	m := &Metrics{
		kinds: map[string]*kindMetrics{
			KindAppConfig:  newKindMetrics("appconfig", KindAppConfig),
			KindPostgreSQL: newKindMetrics("postgresql", KindPostgreSQL),
			KindWebApp:     newKindMetrics("webapp", KindWebApp),
			KindVoteConfig: newKindMetrics("voteconfig", KindVoteConfig),
			KindBackup:     newKindMetrics("backup", KindBackup),
			KindBackupRun:  newKindMetrics("backuprun", KindBackupRun),
			KindRestore:    newKindMetrics("restore", KindRestore),
			KindAppStack:   newKindMetrics("appstack", KindAppStack),

			KindWebAppPolicy:      newKindMetrics("webapppolicy", KindWebAppPolicy),
			KindEcommercePlatform: newKindMetrics("ecommerceplatform", KindEcommercePlatform),
		},
		configChanges: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fettle_config_changes_total",
			Help: "Rollouts started because of a changed ConfigMap, Secret, AppConfig or VoteConfig.",
		}, []string{"namespace"}),
		appConfigs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "appconfig_changes_total",
			Help: "AppConfig publications that replaced earlier contents.",
		}, []string{"namespace"}),
		agentOutdated: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "fettle_postgresql_agent_outdated",
			Help: "Instances of the PostgreSQL whose agent is of another image than the operator's; absent if there are none.",
		}, []string{"namespace", "name"}),
		backups: newBackupMetrics(reg),
		tracked: map[scope]map[string]struct{}{},
	}
	reg.MustRegister(m.configChanges, m.appConfigs, m.agentOutdated)
	for _, f := range m.kinds {
		reg.MustRegister(f.reconciles, f.errors, f.duration, f.creation)
	}
	if perObject {
		m.ready = prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "fettle_resource_ready",
			Help: "1 if the object's Ready condition is True, otherwise 0.",
		}, []string{"kind", "namespace", "name"})
		reg.MustRegister(m.ready)
	}
	return m
}

func newKindMetrics(prefix, kind string) *kindMetrics {
	return &kindMetrics{
		reconciles: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "_reconcile_total",
			Help: "Reconciles of " + kind + " objects, by result (success or error).",
		}, []string{"namespace", "result"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "_errors_total",
			Help: "Failed reconciles of " + kind + " objects, by error type (conflict, invalid, forbidden, throttled, timeout or other).",
		}, []string{"namespace", "type"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    prefix + "_reconcile_duration_seconds",
			Help:    "Duration of a reconcile of a " + kind + " object.",
			Buckets: []float64{0.1, 0.5, 1, 2.5, 5, 10},
		}, []string{"namespace"}),
		creation: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    prefix + "_creation_duration_seconds",
			Help:    "Time from the creation of a " + kind + " object until it was Ready for the first time.",
			Buckets: []float64{1, 5, 10, 30, 60, 120, 300},
		}, []string{"namespace"}),
	}
}

// Observe counts one reconcile of an existing object, with its duration and error.
func (m *Metrics) Observe(kind string, key types.NamespacedName, d time.Duration, err error) {
	m.count(kind, key, func(f *kindMetrics) {
		f.duration.WithLabelValues(key.Namespace).Observe(d.Seconds())
		if err == nil {
			f.reconciles.WithLabelValues(key.Namespace, resultSuccess).Inc()
			return
		}
		f.reconciles.WithLabelValues(key.Namespace, resultError).Inc()
		f.errors.WithLabelValues(key.Namespace, apply.ErrorType(err)).Inc()
	})
}

// Created observes the time from creation to Ready. Call it once for each object.
func (m *Metrics) Created(kind string, key types.NamespacedName, d time.Duration) {
	m.count(kind, key, func(f *kindMetrics) {
		f.creation.WithLabelValues(key.Namespace).Observe(d.Seconds())
	})
}

// ConfigChanged counts a rollout that was started because a referenced object changed.
func (m *Metrics) ConfigChanged(kind string, key types.NamespacedName) {
	m.count(kind, key, func(*kindMetrics) { m.configChanges.WithLabelValues(key.Namespace).Inc() })
}

// AppConfigChanged counts a publication that replaced other contents.
func (m *Metrics) AppConfigChanged(key types.NamespacedName) {
	m.count(KindAppConfig, key, func(*kindMetrics) { m.appConfigs.WithLabelValues(key.Namespace).Inc() })
}

// Ready sets fettle_resource_ready. It does nothing unless perObject was set.
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

// Forget removes an object. Call it from the reconcile that does not find the object any more. The queue runs only one
// reconcile per object at a time, so no other one re-creates its series.
func (m *Metrics) Forget(kind string, key types.NamespacedName) {
	if m == nil {
		return
	}
	if m.ready != nil {
		m.ready.DeleteLabelValues(kind, key.Namespace, key.Name)
	}
	if kind == KindPostgreSQL {
		m.agentOutdated.DeleteLabelValues(key.Namespace, key.Name)
	}
	if kind == KindBackup {
		m.backups.forget(key)
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

// count calls add with the metrics of the kind, and tracks the object. It holds the lock during add, so that the
// namespace's series are not removed in between.
func (m *Metrics) count(kind string, key types.NamespacedName, add func(*kindMetrics)) {
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

// tracks returns whether any kind has objects in the namespace. The caller holds the lock.
func (m *Metrics) tracks(namespace string) bool {
	for kind := range m.kinds {
		if len(m.tracked[scope{kind: kind, namespace: namespace}]) > 0 {
			return true
		}
	}
	return false
}
