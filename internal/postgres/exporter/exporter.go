// Package exporter gives the metrics of a PostgreSQL server to Prometheus. It reads them as config.MonitorUser, who is no
// superuser, when they are asked for.
package exporter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fettle-dev/fettle/internal/postgres/session"
)

// Options say which server is asked.
type Options struct {
	// Session names the socket. User is config.MonitorUser when empty.
	Session session.Options
	// Timeout bounds a collection; 0 is 5 s.
	Timeout time.Duration
	// Disk measures the data's volume in bytes; nil leaves those metrics out.
	Disk func() (size, free int64, err error)
}

// Collector collects the metrics. Close it when it is of no use any more.
type Collector struct{}

// New makes a collector to register.
func New(_ Options) *Collector { return &Collector{} }

// Describe implements prometheus.Collector.
func (c *Collector) Describe(_ chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(_ chan<- prometheus.Metric) {}

// Close ends the connection.
func (c *Collector) Close() {}
