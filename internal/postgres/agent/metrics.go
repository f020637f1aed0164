package agent

import (
	"net/http"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/exporter"
	"github.com/fettle-dev/fettle/internal/postgres/peer"
	"github.com/fettle-dev/fettle/internal/postgres/session"
)

// counts are what the agent has done since it started.
type counts struct {
	promotions, crashes, reclones, rewinds, heartbeats, missed, unanswered, asked, promises atomic.Int64
}

// newMetrics serves the metrics of PostgreSQL and of the agent.
func (a *Agent) newMetrics() http.Handler {
	registry := prometheus.NewRegistry()
	server := exporter.New(exporter.Options{
		Session: session.Options{SocketDir: a.server.SocketDir(), Port: a.options.PostgresPort, User: config.MonitorUser, ApplicationName: "fettle-exporter"},
		Disk: func() (int64, int64, error) {
			disk, err := a.server.Disk()
			return disk.Size, disk.Free, err
		},
	})
	registry.MustRegister(server, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector())
	for _, c := range []struct {
		name, help string
		value      *atomic.Int64
	}{
		{"promotions_total", "Times this instance became the primary.", &a.counts.promotions},
		{"crashes_total", "Times PostgreSQL ended or failed to start without being told to end.", &a.counts.crashes},
		{"fences_total", "Times PostgreSQL was stopped because the Lease was not renewed in time.", &a.fence.stopped},
		{"rewinds_total", "Times the data was rewound to follow another primary.", &a.counts.rewinds},
		{"reclones_total", "Times the data was replaced because it could not follow the primary.", &a.counts.reclones},
		{"heartbeats_total", "Writes that told that the primary is alive.", &a.counts.heartbeats},
		{"heartbeats_missed_total", "Writes that failed or were not answered in time.", &a.counts.missed},
		{"lease_errors_total", "Writes of the Lease without an answer.", &a.counts.unanswered},
		{"failsafe_questions_total", "Rounds of questions to the peers while the API server could not be reached.", &a.counts.asked},
		{"failsafe_promises_total", "Promises given to a primary that could not reach the API server.", &a.counts.promises},
	} {
		registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "fettle", Subsystem: "agent", Name: c.name, Help: c.help},
			func() float64 { return float64(c.value.Load()) }))
	}
	a.gauges(registry)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

func (a *Agent) gauges(registry *prometheus.Registry) {
	for _, g := range []struct {
		name, help string
		value      func(s peer.Status) float64
	}{
		{"is_primary", "1 while this instance is the primary.", func(s peer.Status) float64 { return one(s.Role == peer.Primary && s.HoldsLease) }},
		{"ready", "1 while the instance is ready.", func(s peer.Status) float64 { return one(s.Ready) }},
		{"api_reachable", "1 while the API server answers.", func(s peer.Status) float64 { return one(s.APIReachable) }},
		{"timeline", "Timeline of the data.", func(s peer.Status) float64 { return float64(s.Timeline) }},
		{"pending_restart", "Number of parameters that take effect after a restart.", func(s peer.Status) float64 { return float64(len(s.PendingRestart)) }},
	} {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "fettle", Subsystem: "agent", Name: g.name, Help: g.help},
			func() float64 { return g.value(a.Status()) }))
	}
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "fettle", Subsystem: "agent", Name: "lease_age_seconds",
		Help: "Seconds since the last renewal of the Lease by this instance that succeeded was sent; 0 while it does not hold the Lease.",
	}, func() float64 {
		renewed := a.renewed.Load()
		if renewed == 0 || !a.Status().HoldsLease {
			return 0
		}
		return (now() - timeOf(renewed)).Seconds()
	}))
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
