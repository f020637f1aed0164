package agent

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/election"
	"github.com/fettle-dev/fettle/internal/postgres/exporter"
	"github.com/fettle-dev/fettle/internal/postgres/sqlclient"
)

// counts are the counters of the agent since its start.
type counts struct {
	promotions, crashes, reclones, rewinds, heartbeats, heartbeatFailures, leaseErrors, promiseRequests, promises atomic.Int64
	// initFailures, copyFailures and rewindFailures count failed tasks on the data directory.
	initFailures, copyFailures, rewindFailures atomic.Int64
}

func (c *counts) failed(kind election.DataTask) {
	if count := c.failures()[kind]; count != nil {
		count.Add(1)
	}
}

func (c *counts) failures() map[election.DataTask]*atomic.Int64 {
	return map[election.DataTask]*atomic.Int64{
		election.Initializing: &c.initFailures, election.Cloning: &c.copyFailures, election.Rewinding: &c.rewindFailures,
	}
}

// metricsHandler serves the metrics of PostgreSQL and of the agent.
func (a *Agent) metricsHandler() http.Handler {
	registry := prometheus.NewRegistry()
	server := exporter.New(exporter.Options{
		Connection: sqlclient.Options{SocketDir: a.server.SocketDir(), Port: a.options.PostgresPort, User: config.MonitorUser, ApplicationName: "fettle-exporter"},
		Disk: func() (int64, int64, error) {
			disk, err := a.server.Disk()
			return disk.Size, disk.Free, err
		},
	})
	registry.MustRegister(server, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector())
	registry.MustRegister(a.collectors()...)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(&cachedGatherer{Gatherer: registry, pause: scrapePause}, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes}))
	return mux
}

const (
	namespace = "fettle"
	subsystem = "agent"
)

// newHeartbeatTimes measures heartbeats, whose time is that of a commit on the primary's own disk.
func newHeartbeatTimes() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "heartbeat_duration_seconds",
		Help: "Duration of the heartbeat, a write and commit on the primary.", Buckets: []float64{.005, .02, .05, .1, .25, .5, 1, 2},
	})
}

func (a *Agent) collectors() []prometheus.Collector {
	all := append(a.counters(), a.gauges()...)
	all = append(all, a.archiveGauges()...)
	return append(all, a.heartbeatTimes, certificateCollector(a.certificateFiles()))
}

func (a *Agent) counters() []prometheus.Collector {
	var all []prometheus.Collector
	add := func(name, help string, labels prometheus.Labels, value *atomic.Int64) {
		all = append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, ConstLabels: labels,
		}, func() float64 { return float64(value.Load()) }))
	}
	for _, c := range []struct {
		name, help string
		value      *atomic.Int64
	}{
		{"promotions_total", "Promotions of this instance to primary.", &a.counts.promotions},
		{"crashes_total", "Times PostgreSQL exited unexpectedly or failed to start.", &a.counts.crashes},
		{"fences_total", "Times PostgreSQL was fenced because the lease was not renewed in time.", &a.fence.stopped},
		{"rewinds_total", "Times pg_rewind was started to follow another primary.", &a.counts.rewinds},
		{"reclones_total", "Times the data was recloned because it could not follow the primary.", &a.counts.reclones},
		{"heartbeats_total", "Successful heartbeats of the primary.", &a.counts.heartbeats},
		{"heartbeats_missed_total", "Heartbeats of the primary that failed or timed out.", &a.counts.heartbeatFailures},
		{"lease_errors_total", "Updates of the lease that failed or timed out.", &a.counts.leaseErrors},
		{"failsafe_questions_total", "Rounds of requests for promises from the peers while the lease could not be renewed.", &a.counts.promiseRequests},
		{"failsafe_promises_total", "Promises granted to a primary that could not renew its lease.", &a.counts.promises},
	} {
		add(c.name, c.help, nil, c.value)
	}
	for work, count := range a.counts.failures() {
		add("work_failures_total", "Failed tasks on the data directory: initdb, clone or rewind.",
			prometheus.Labels{"work": string(work)}, count)
	}
	return all
}

func (a *Agent) gauges() []prometheus.Collector {
	var all []prometheus.Collector
	add := func(name, help string, labels prometheus.Labels, value func(s agentapi.Status) float64) {
		all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, ConstLabels: labels,
		}, func() float64 { return value(a.Status()) }))
	}
	add("is_primary", "1 while this instance is the primary.", nil, func(s agentapi.Status) float64 { return one(s.Role == agentapi.Primary && s.HoldsLease) })
	add("ready", "1 while the instance is ready.", nil, func(s agentapi.Status) float64 { return one(s.Ready) })
	add("api_reachable", "1 while the API server answers.", nil, func(s agentapi.Status) float64 { return one(s.APIReachable) })
	add("wal_unavailable", "1 while the primary has removed WAL that this standby needs next.", nil, func(s agentapi.Status) float64 { return one(s.Election.WALGone) })
	add("writes_rejected", "1 while PostgreSQL rejects the heartbeats of the primary with an error.", nil, func(s agentapi.Status) float64 { return one(s.Reason == databasev1alpha1.ReasonWritesRejected) })
	add("timeline", "Timeline of the data.", nil, func(s agentapi.Status) float64 { return float64(s.Timeline) })
	add("pending_restart", "Number of parameters that need a restart to take effect.", nil, func(s agentapi.Status) float64 { return float64(len(s.PendingRestart)) })
	for _, phase := range phases {
		add("phase", "1 for the current phase of the instance, 0 for all other phases.",
			prometheus.Labels{"phase": string(phase)}, func(s agentapi.Status) float64 { return one(s.Phase == phase) })
	}
	add("lease_age_seconds", "Seconds since this instance sent its last successful renewal of the lease; 0 while it does not hold the lease.",
		nil, func(s agentapi.Status) float64 {
			renewed := a.renewedAt.Load()
			if renewed == 0 || !s.HoldsLease {
				return 0
			}
			return (now() - time.Duration(renewed)).Seconds()
		})
	return all
}

// archiveGauges are about WAL archiving. Without spec.backup they are 0.
func (a *Agent) archiveGauges() []prometheus.Collector {
	var all []prometheus.Collector
	add := func(name, help string, value func(agentapi.Archive) float64) {
		all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Subsystem: "postgresql", Name: name, Help: help}, func() float64 {
			state := a.archiver.Status()
			if state == nil {
				return 0
			}
			return value(*state)
		}))
	}
	add("archiving_failed", "1 while this instance cannot store WAL in the object store of spec.backup.",
		func(s agentapi.Archive) float64 { return one(!s.FailingSince.IsZero()) })
	add("archiving_waiting_segments", "WAL files of this instance that are not archived yet.", func(s agentapi.Archive) float64 { return float64(s.Waiting) })
	add("archiving_last_success_timestamp_seconds", "When this instance last stored WAL in the object store, in seconds since the epoch; 0 for never.",
		func(s agentapi.Archive) float64 {
			if s.LastSuccess.IsZero() {
				return 0
			}
			return float64(s.LastSuccess.Unix())
		})
	return all
}

var phases = []agentapi.Phase{
	agentapi.Starting, agentapi.Running, agentapi.Stopping, agentapi.Stopped, agentapi.Cloning, agentapi.Rewinding, agentapi.Initializing, agentapi.Fenced, agentapi.Unresponsive,
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
