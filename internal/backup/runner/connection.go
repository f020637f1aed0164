package runner

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/job"
)

// address is host:port of the server, or the hosts of a URI of MongoDB.
func address(s job.Server) string {
	if s.Port == 0 {
		return s.Host
	}
	return net.JoinHostPort(s.Host, strconv.Itoa(int(s.Port)))
}

// connectionFailure is the reason for an error other than an answer of the server.
func connectionFailure(s job.Server, err error) error {
	if certificate, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return refuse(backupv1alpha1.ReasonServerRejected, "the certificate of the server %s cannot be trusted: %w: correct tls.caSecretRef, tls.mode or host",
			address(s), certificate)
	}
	return fail(backupv1alpha1.ReasonServerUnreachable, "the server %s does not answer: %w: check host, port, DNS, firewalls and NetworkPolicies",
		address(s), err)
}

// tlsConfig checks certificates as tls.mode says. nil means no TLS. Mode prefer is left to the caller.
func (r *run) tlsConfig(s job.Server) (*tls.Config, error) {
	switch s.TLS {
	case backupv1alpha1.TLSDisable, backupv1alpha1.TLSPrefer, "":
		return nil, nil
	case backupv1alpha1.TLSRequire:
		return &tls.Config{InsecureSkipVerify: true}, nil //nolint:gosec // mode require does not check the certificate
	case backupv1alpha1.TLSVerifyCA, backupv1alpha1.TLSVerifyFull:
	}
	pem, err := os.ReadFile(r.caFile(s))
	if err != nil {
		return nil, fmt.Errorf("read the CA of the server: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, refuse(backupv1alpha1.ReasonServerRejected, "tls.caSecretRef: the Secret has no certificates in PEM")
	}
	config := &tls.Config{RootCAs: pool, ServerName: s.Host, MinVersion: tls.VersionTLS12}
	if s.TLS == backupv1alpha1.TLSVerifyCA {
		config.InsecureSkipVerify = true //nolint:gosec // VerifyConnection checks the chain, not the name
		config.VerifyConnection = func(state tls.ConnectionState) error {
			o := x509.VerifyOptions{Roots: pool, Intermediates: x509.NewCertPool()}
			for _, certificate := range state.PeerCertificates[1:] {
				o.Intermediates.AddCert(certificate)
			}
			if _, err := state.PeerCertificates[0].Verify(o); err != nil {
				return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
			}
			return nil
		}
	}
	return config, nil
}
