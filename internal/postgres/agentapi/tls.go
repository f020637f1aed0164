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

// reloadInterval is how often files are compared; kubelet takes up to a minute to change them.
const reloadInterval = 10 * time.Second

// CertFiles is a folder with tls.crt, tls.key and ca.crt: a mounted Secret. What changes in it is picked up without a restart.
// It is safe for concurrent use.
type CertFiles struct {
	dir string

	mutex    sync.Mutex
	checked  time.Time
	modTimes [3]time.Time
	pair     *tls.Certificate
	roots    *x509.CertPool
}

// NewCertFiles reads the folder once and returns why it can't be used.
func NewCertFiles(dir string) (*CertFiles, error) {
	f := &CertFiles{dir: dir}
	_, _, err := f.current()
	if err != nil {
		return nil, err
	}
	return f, nil
}

// current returns the pair and the authorities. When new files are damaged, the last good ones stay in use.
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

// fileNames are those of the files: stamps and contents are in this order.
var fileNames = [3]string{"tls.crt", "tls.key", "ca.crt"}

func (f *CertFiles) readModTimes() (modTimes [3]time.Time, err error) {
	for i, name := range fileNames {
		info, err := os.Stat(filepath.Join(f.dir, name))
		if err != nil {
			return modTimes, fmt.Errorf("certificates: %w", err)
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
			return fmt.Errorf("certificates: %w", err)
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
	// What others would not take does not replace what they do.
	if err := pki.CheckUsable(pki.Pair{Certificate: contents[0], Key: contents[1]}, contents[2], time.Now()); err != nil && f.pair != nil {
		return fmt.Errorf("certificate in %s: %w", f.dir, err)
	}
	f.pair, f.roots, f.modTimes = &pair, roots, modTimes
	return nil
}

// ServerTLS asks every client for a certificate of the authority.
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

// clientTLS expects the host's name in an agent's certificate, wherever it is dialled.
func clientTLS(host string, current func() (*tls.Certificate, *x509.CertPool, error)) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: host,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, _, err := current()
			return pair, err
		},
		// The authority may change while a client lives, so it is looked up for each handshake instead of once.
		InsecureSkipVerify: true, // VerifyConnection does what this leaves out
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
		return errors.New("the agent showed no certificate")
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

// RequireCommonName lets only those in whose certificate has one of the names; others get 403.
func RequireCommonName(next http.HandlerFunc, names ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || !slices.Contains(names, r.TLS.VerifiedChains[0][0].Subject.CommonName) {
			http.Error(w, "this certificate does not allow it", http.StatusForbidden)
			return
		}
		next(w, r)
	}
}

// RequireHost answers only what is meant for the agent called host: all of a cluster's have the same certificate, and the
// address of one that is gone may become another's. Others get 421.
func RequireHost(host string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != host {
			http.Error(w, "this is "+host+", another agent was asked for", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}
