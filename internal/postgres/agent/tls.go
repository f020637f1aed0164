package agent

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fettle-dev/fettle/internal/postgres/config"
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
// files of a folder are read before the first is written.
func (t *tlsFiles) Copy() (changed bool, err error) {
	for _, folder := range []string{folderServer, folderReplication} {
		one, err := t.folder(folder)
		if err != nil {
			return changed, fmt.Errorf("copy certificates: %w", err)
		}
		changed = changed || one
	}
	return changed, nil
}

func (t *tlsFiles) folder(folder string) (changed bool, err error) {
	contents := map[string][]byte{}
	for _, name := range []string{"ca.crt", "tls.crt", "tls.key"} {
		content, err := os.ReadFile(filepath.Join(t.from, folder, name))
		if err != nil {
			return false, err
		}
		contents[name] = content
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
		if err := replaceFile(path, content); err != nil {
			return changed, err
		}
		changed = true
	}
	return changed, nil
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
