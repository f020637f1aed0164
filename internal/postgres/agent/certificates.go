package agent

import (
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fettle-dev/fettle/internal/postgres/pki"
)

// certificateTimes is a collector of when certificates begin and end. Files are read when Prometheus asks; one that can't be
// read has no series.
type certificateTimes map[string]string // paths by the name of the certificate

var (
	certificateStart = prometheus.NewDesc("fettle_agent_certificate_start_timestamp_seconds",
		"When the certificate became valid, in seconds since 1970.", []string{"certificate"}, nil)
	certificateExpiry = prometheus.NewDesc("fettle_agent_certificate_expiry_timestamp_seconds",
		"When the certificate ends, in seconds since 1970.", []string{"certificate"}, nil)
)

// certificateFiles are the certificates of an instance: what PostgreSQL shows its clients, what the agents know each other
// by, what standbys connect with, and the authority of the last two.
func (a *Agent) certificateFiles() map[string]string {
	from, to := a.options.TLS, a.options.Run
	return map[string]string{
		"server":      filepath.Join(to, folderServer, "tls.crt"),
		"agent":       filepath.Join(from, folderServer, "tls.crt"),
		"replication": filepath.Join(to, folderReplication, "tls.crt"),
		"authority":   filepath.Join(from, folderServer, "ca.crt"),
	}
}

// Describe implements prometheus.Collector.
func (c certificateTimes) Describe(out chan<- *prometheus.Desc) {
	out <- certificateStart
	out <- certificateExpiry
}

// Collect implements prometheus.Collector.
func (c certificateTimes) Collect(out chan<- prometheus.Metric) {
	for name, path := range c {
		content, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		from, to, err := pki.Valid(content)
		if err != nil {
			continue
		}
		out <- prometheus.MustNewConstMetric(certificateStart, prometheus.GaugeValue, float64(from.Unix()), name)
		out <- prometheus.MustNewConstMetric(certificateExpiry, prometheus.GaugeValue, float64(to.Unix()), name)
	}
}
