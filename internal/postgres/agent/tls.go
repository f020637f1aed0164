package agent

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/pki"
	"github.com/fettle-dev/fettle/internal/postgres/server"
)

// Folders of certificates, below Options.TLS and, as PostgreSQL reads them, below Options.Run.
const (
	folderServer      = "server"
	folderReplication = "replication"
)

// tlsFiles copies the certificates for PostgreSQL: a mounted Secret belongs to root and its group may read it, which older
// versions of libpq refuse for a key.
type tlsFiles struct{ from, to string }

// Copy brings the copies up to date and says whether any changed. A certificate comes before its key nowhere: all three
// files of a folder are read before the first is written. One that nobody could rely on is taken only where there is none
// yet. The error also says what is wrong with those that are in use.
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

// has says whether PostgreSQL has all files of a folder.
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
	useless := pki.Usable(contents["tls.crt"], contents["tls.key"], contents["ca.crt"], time.Now())
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

// serve has PostgreSQL show its clients the certificate of an issuer where there is one. The instances know each other by their
// own, which they read from where it is mounted.
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

// upstream is an instance as a standby connects to it.
func (t *tlsFiles) upstream(host string, port int, slot string) config.Upstream {
	return config.Upstream{
		Host: host, Port: port, Slot: slot,
		CertFile: t.path(folderReplication, "tls.crt"), KeyFile: t.path(folderReplication, "tls.key"), CAFile: t.path(folderReplication, "ca.crt"),
	}
}
