package pki

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Request describes a certificate. The certificate is valid as a server certificate for DNSNames and IPs, and as a client
// certificate for the user CommonName in Groups.
type Request struct {
	Name       string // the file names are NAME.crt and NAME.key
	CommonName string
	Groups     []string
	DNSNames   []string
	IPs        []net.IP
}

// Pair holds the paths of a certificate and its key.
type Pair struct {
	Cert, Key string
}

// Issue creates the certificate of r, unless the directory has a certificate with the same content that this CA signed and
// that does not expire soon. Running processes must be restarted to load a new certificate.
func (ca *CA) Issue(r Request) (Pair, error) {
	pair := Pair{Cert: ca.file(r.Name + ".crt"), Key: ca.file(r.Name + ".key")}
	if cert, _, err := readPair(pair.Cert, pair.Key); err == nil && ca.isValid(cert, r) {
		return pair, nil
	}
	key, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	template, err := newTemplate(pkix.Name{CommonName: r.CommonName, Organization: r.Groups})
	if err != nil {
		return Pair{}, err
	}
	template.DNSNames, template.IPAddresses = r.DNSNames, r.IPs
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	cert, err := ca.sign(template, key)
	if err != nil {
		return Pair{}, err
	}
	return pair, ca.write(r.Name, cert, key)
}

// isValid reports whether Issue can keep cert for r.
func (ca *CA) isValid(cert *x509.Certificate, r Request) bool {
	return cert.CheckSignatureFrom(ca.cert) == nil &&
		time.Until(cert.NotAfter) > renewBefore &&
		cert.Subject.CommonName == r.CommonName &&
		slices.Equal(cert.Subject.Organization, r.Groups) &&
		slices.Equal(cert.DNSNames, r.DNSNames) &&
		slices.EqualFunc(cert.IPAddresses, r.IPs, net.IP.Equal)
}

// SigningKey creates the key pair for service account tokens (NAME.key, NAME.pub), unless it exists.
func (ca *CA) SigningKey(name string) (private, public string, err error) {
	private, public = ca.file(name+".key"), ca.file(name+".pub")
	if _, err := readPEM(private); err == nil {
		if _, err := readPEM(public); err == nil {
			return private, public, nil
		}
	}
	key, err := newKey()
	if err != nil {
		return "", "", err
	}
	privateDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", "", fmt.Errorf("encode the key of service account tokens: %w", err)
	}
	publicDER, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return "", "", fmt.Errorf("encode the public key of service account tokens: %w", err)
	}
	if err := os.WriteFile(private, encode("PRIVATE KEY", privateDER), 0o600); err != nil {
		return "", "", fmt.Errorf("write the key of service account tokens: %w", err)
	}
	if err := os.WriteFile(public, encode("PUBLIC KEY", publicDER), 0o644); err != nil {
		return "", "", fmt.Errorf("write the public key of service account tokens: %w", err)
	}
	return private, public, nil
}

// Kubeconfig writes a kubeconfig with the user's client certificate and the CA embedded, mode 0600. It does not write an
// unchanged file.
func (ca *CA) Kubeconfig(file, server, user string, pair Pair) error {
	cert, err := os.ReadFile(pair.Cert)
	if err != nil {
		return fmt.Errorf("read the certificate of %s: %w", user, err)
	}
	key, err := os.ReadFile(pair.Key)
	if err != nil {
		return fmt.Errorf("read the key of %s: %w", user, err)
	}
	const cluster = "fettle"
	config := clientcmdapi.NewConfig()
	config.Clusters[cluster] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca.Certificate()}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	config.Contexts[cluster] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: user}
	config.CurrentContext = cluster
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("encode the kubeconfig of %s: %w", user, err)
	}
	if old, err := os.ReadFile(file); err == nil && slices.Equal(old, data) {
		return os.Chmod(file, 0o600)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return fmt.Errorf("write the kubeconfig of %s: %w", user, err)
	}
	return os.Chmod(file, 0o600)
}
