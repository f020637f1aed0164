package agent

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/pki"
	"github.com/fettle-dev/fettle/internal/postgres/server"
)

// Folders of certificates, below Options.TLS and, as PostgreSQL reads them, below Options.Run.
const (
	folderServer      = "server"
	folderReplication = "replication"
)

// tlsFiles copies the certificates: the key of a mounted Secret is readable by its group, which older versions of libpq reject.
type tlsFiles struct{ from, to string }

// Copy updates the copies. It reads all files of a folder before it writes the first. An unusable certificate is copied only if
// there is none yet. The error also reports what is wrong with the certificates in use.
func (t *tlsFiles) Copy() (changed bool, err error) {
	for _, folder := range []string{folderServer, folderReplication} {
		one, failure := t.folder(folder)
		changed = changed || one
		if failure != nil {
			err = errors.Join(err, fmt.Errorf("certificate in %s: %w", filepath.Join(t.from, folder), failure))
		}
	}
	return changed, err
}

// has reports whether PostgreSQL has all files of a folder.
func (t *tlsFiles) has(folder string) bool {
	for _, name := range tlsNames {
		if _, err := os.Stat(t.path(folder, name)); err != nil {
			return false
		}
	}
	return true
}

var tlsNames = []string{"ca.crt", "tls.crt", "tls.key"}

func (t *tlsFiles) folder(folder string) (changed bool, err error) {
	contents := map[string][]byte{}
	for _, name := range tlsNames {
		content, err := os.ReadFile(filepath.Join(t.from, folder, name))
		if err != nil {
			return false, err
		}
		contents[name] = content
	}
	useless := pki.CheckUsable(pki.Pair{Certificate: contents["tls.crt"], Key: contents["tls.key"]}, contents["ca.crt"], time.Now())
	if useless != nil && t.has(folder) {
		return false, useless
	}
	changed, err = t.write(folder, contents)
	return changed, errors.Join(err, useless)
}

func (t *tlsFiles) write(folder string, contents map[string][]byte) (changed bool, err error) {
	if err := t.serve(folder, contents); err != nil {
		return false, err
	}
	for name, content := range contents {
		path := filepath.Join(t.to, folder, name)
		present, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return changed, err
		}
		if bytes.Equal(present, content) {
			continue
		}
		if err := server.WriteFile(path, content); err != nil {
			return changed, err
		}
		changed = true
	}
	return changed, nil
}

// serve makes PostgreSQL present an issuer's certificate to its clients if there is one. Instances authenticate each other by
// their own.
func (t *tlsFiles) serve(folder string, contents map[string][]byte) error {
	for name, served := range map[string]string{"tls.crt": "served.crt", "tls.key": "served.key"} {
		content, err := os.ReadFile(filepath.Join(t.from, folder, served))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		contents[name] = content
	}
	return nil
}

func (t *tlsFiles) path(folder, name string) string { return filepath.Join(t.to, folder, name) }

func (t *tlsFiles) server() config.TLS {
	return config.TLS{
		CertFile: t.path(folderServer, "tls.crt"), KeyFile: t.path(folderServer, "tls.key"), CAFile: t.path(folderServer, "ca.crt"),
	}
}

// upstream is the connection of a standby to an instance.
func (t *tlsFiles) upstream(host string, port int, slot string) config.Upstream {
	return config.Upstream{
		Host: host, Port: port, Slot: slot,
		CertFile: t.path(folderReplication, "tls.crt"), KeyFile: t.path(folderReplication, "tls.key"), CAFile: t.path(folderReplication, "ca.crt"),
	}
}

// certificateCollector collects the validity of certificates. A certificate that cannot be read has no series.
type certificateCollector map[string]string // paths by the name of the certificate

var (
	certificateStart = prometheus.NewDesc("fettle_agent_certificate_start_timestamp_seconds",
		"When the certificate became valid, in seconds since 1970.", []string{"certificate"}, nil)
	certificateExpiry = prometheus.NewDesc("fettle_agent_certificate_expiry_timestamp_seconds",
		"When the certificate expires, in seconds since 1970.", []string{"certificate"}, nil)
)

// certificateFiles are the certificates of an instance: the one that PostgreSQL presents to its clients, the one of the agents'
// API, the one of replication connections, and the CA of the last two.
func (a *Agent) certificateFiles() map[string]string {
	from, to := a.options.TLS, a.options.Run
	return map[string]string{
		"server":      filepath.Join(to, folderServer, "tls.crt"),
		"agent":       filepath.Join(from, folderServer, "tls.crt"),
		"replication": filepath.Join(to, folderReplication, "tls.crt"),
		"ca":          filepath.Join(from, folderServer, "ca.crt"),
	}
}

func (c certificateCollector) Describe(out chan<- *prometheus.Desc) {
	out <- certificateStart
	out <- certificateExpiry
}

func (c certificateCollector) Collect(out chan<- prometheus.Metric) {
	for name, path := range c {
		content, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		from, to, err := pki.Validity(content)
		if err != nil {
			continue
		}
		out <- prometheus.MustNewConstMetric(certificateStart, prometheus.GaugeValue, float64(from.Unix()), name)
		out <- prometheus.MustNewConstMetric(certificateExpiry, prometheus.GaugeValue, float64(to.Unix()), name)
	}
}
