package agentapi

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/pki"
)

// reloadInterval is how often the files are checked. The kubelet takes up to a minute to update them.
const reloadInterval = 10 * time.Second

// CertFiles is a directory with tls.crt, tls.key and ca.crt: a mounted Secret. Changes are loaded without a restart. It is
// safe for concurrent use.
type CertFiles struct {
	dir string

	mutex    sync.Mutex
	checked  time.Time
	modTimes [3]time.Time
	pair     *tls.Certificate
	roots    *x509.CertPool
}

// NewCertFiles loads the directory, and returns an error if that fails.
func NewCertFiles(dir string) (*CertFiles, error) {
	f := &CertFiles{dir: dir}
	_, _, err := f.current()
	if err != nil {
		return nil, err
	}
	return f, nil
}

// current returns the key pair and the CAs. If new files are invalid, the last valid ones stay in use.
func (f *CertFiles) current() (*tls.Certificate, *x509.CertPool, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.pair != nil && time.Since(f.checked) < reloadInterval {
		return f.pair, f.roots, nil
	}
	f.checked = time.Now()
	modTimes, err := f.readModTimes()
	if err == nil && (f.pair == nil || modTimes != f.modTimes) {
		err = f.load(modTimes)
	}
	if f.pair == nil {
		return nil, nil, err
	}
	return f.pair, f.roots, nil
}

// fileNames are the names of the files, in the order of modTimes.
var fileNames = [3]string{"tls.crt", "tls.key", "ca.crt"}

func (f *CertFiles) readModTimes() (modTimes [3]time.Time, err error) {
	for i, name := range fileNames {
		info, err := os.Stat(filepath.Join(f.dir, name))
		if err != nil {
			return modTimes, fmt.Errorf("load certificates: %w", err)
		}
		modTimes[i] = info.ModTime()
	}
	return modTimes, nil
}

func (f *CertFiles) load(modTimes [3]time.Time) error {
	var contents [3][]byte
	for i, name := range fileNames {
		content, err := os.ReadFile(filepath.Join(f.dir, name))
		if err != nil {
			return fmt.Errorf("load certificates: %w", err)
		}
		contents[i] = content
	}
	pair, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return fmt.Errorf("certificate in %s: %w", f.dir, err)
	}
	roots, err := pki.Pool(contents[2])
	if err != nil {
		return fmt.Errorf("ca.crt in %s: %w", f.dir, err)
	}
	// An unusable certificate does not replace a usable one.
	if err := pki.CheckUsable(pki.Pair{Certificate: contents[0], Key: contents[1]}, contents[2], time.Now()); err != nil && f.pair != nil {
		return fmt.Errorf("certificate in %s: %w", f.dir, err)
	}
	f.pair, f.roots, f.modTimes = &pair, roots, modTimes
	return nil
}

// ServerTLS requires client certificates of the CA.
func (f *CertFiles) ServerTLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ClientAuth: tls.RequireAndVerifyClientCert,
		NextProtos: []string{"h2", "http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			pair, roots, err := f.current()
			if err != nil {
				return nil, err
			}
			return &tls.Config{
				MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2", "http/1.1"},
				Certificates: []tls.Certificate{*pair}, ClientCAs: roots,
			}, nil
		},
	}
}

// clientTLS verifies the agent's certificate for host, whatever address is dialed.
func clientTLS(host string, current func() (*tls.Certificate, *x509.CertPool, error)) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: host,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, _, err := current()
			return pair, err
		},
		// The CA may change while a client lives, so it is read on each handshake.
		InsecureSkipVerify: true, // VerifyConnection verifies instead
		VerifyConnection: func(state tls.ConnectionState) error {
			_, roots, err := current()
			if err != nil {
				return err
			}
			return verifyAgent(state, host, roots)
		},
	}
}

func verifyAgent(state tls.ConnectionState, host string, roots *x509.CertPool) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the agent presented no certificate")
	}
	leaf, intermediates := state.PeerCertificates[0], x509.NewCertPool()
	for _, certificate := range state.PeerCertificates[1:] {
		intermediates.AddCert(certificate)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, Intermediates: intermediates}); err != nil {
		return err
	}
	if leaf.Subject.CommonName != pki.Agent {
		return fmt.Errorf("the certificate of %s is not an agent's", host)
	}
	return nil
}

// RequireCommonName allows only client certificates with one of the common names. Others get 403.
func RequireCommonName(next http.HandlerFunc, names ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || !slices.Contains(names, r.TLS.VerifiedChains[0][0].Subject.CommonName) {
			http.Error(w, "forbidden for this client certificate", http.StatusForbidden)
			return
		}
		next(w, r)
	}
}

// RequireHost allows only requests for the agent with this host name. All agents of a cluster share one certificate, and
// the IP address of a deleted pod may be reused by another. Others get 421.
func RequireHost(host string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != host {
			http.Error(w, "this is "+host+", not the requested host", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}
