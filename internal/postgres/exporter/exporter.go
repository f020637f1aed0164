// Package exporter exports the metrics of a PostgreSQL server to Prometheus. It queries them on each scrape as
// config.MonitorUser, who is not a superuser.
package exporter

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/sqlclient"
)

// Options of a Collector.
type Options struct {
	// Connection identifies the socket. User defaults to config.MonitorUser.
	Connection sqlclient.Options
	// Timeout bounds a scrape. Defaults to 5 s.
	Timeout time.Duration
	// Disk returns size and free space of the data volume in bytes. nil leaves out those metrics.
	Disk func() (size, free int64, err error)
}

// Collector collects the metrics.
type Collector struct {
	options Options
	client  *sqlclient.Client
	errors  prometheus.Counter
}

const namespace = "fettle_postgresql_"

var (
	up         = describe("up", "1 if the server responded to the exporter, otherwise 0.")
	volumeSize = describe("volume_size_bytes", "Size of the data volume in bytes.")
	volumeFree = describe("volume_free_bytes", "Free space on the data volume in bytes.")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+name, help, labels, nil)
}

// New creates a collector to register.
func New(o Options) *Collector {
	o.Connection.User = cmp.Or(o.Connection.User, config.MonitorUser)
	o.Connection.ApplicationName = cmp.Or(o.Connection.ApplicationName, "fettle-exporter")
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	o.Connection.StatementTimeout = cmp.Or(o.Connection.StatementTimeout, o.Timeout)
	return &Collector{
		options: o, client: sqlclient.New(o.Connection),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: namespace + "exporter_errors_total", Help: "Queries of the exporter that failed while the server was up.",
		}),
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{up, volumeSize, volumeFree, c.errors.Desc()} {
		out <- d
	}
	for _, q := range queries {
		for _, m := range q.metrics {
			out <- m.desc
		}
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), c.options.Timeout) //nolint:forbidigo // Prometheus gives none
	defer cancel()
	c.collectVolume(out)
	version, standby, err := c.serverInfo(ctx)
	alive := 0.0
	if err == nil {
		alive = 1
	}
	out <- prometheus.MustNewConstMetric(up, prometheus.GaugeValue, alive)
	if err != nil {
		out <- c.errors
		return
	}
	for _, q := range queries {
		if !q.matches(version/10000, standby) {
			continue
		}
		if err := c.run(ctx, q, out); err != nil {
			c.errors.Inc()
		}
	}
	out <- c.errors
}

func (c *Collector) collectVolume(out chan<- prometheus.Metric) {
	if c.options.Disk == nil {
		return
	}
	size, free, err := c.options.Disk()
	if err != nil {
		c.errors.Inc()
		return
	}
	out <- prometheus.MustNewConstMetric(volumeSize, prometheus.GaugeValue, float64(size))
	out <- prometheus.MustNewConstMetric(volumeFree, prometheus.GaugeValue, float64(free))
}

func (c *Collector) serverInfo(ctx context.Context) (version int, standby bool, err error) {
	err = c.client.Query(ctx, "SELECT current_setting('server_version_num')::int, pg_is_in_recovery()", func(row pgx.CollectableRow) error {
		return row.Scan(&version, &standby)
	})
	return version, standby, err
}

// run converts each row of the result to metrics. NULL values are left out.
func (c *Collector) run(ctx context.Context, q query, out chan<- prometheus.Metric) error {
	return c.client.Query(ctx, q.sql, func(row pgx.CollectableRow) error {
		labels, values := make([]string, len(q.labels)), make([]*float64, len(q.metrics))
		targets := make([]any, 0, len(labels)+len(values))
		for i := range labels {
			targets = append(targets, &labels[i])
		}
		for i := range values {
			targets = append(targets, &values[i])
		}
		if err := row.Scan(targets...); err != nil {
			return fmt.Errorf("%s: %w", q.sql, err)
		}
		for i, m := range q.metrics {
			if values[i] != nil {
				out <- prometheus.MustNewConstMetric(m.desc, m.kind, *values[i], labels...)
			}
		}
		return nil
	})
}
