package v1alpha1

import fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"

// PostgreSQLPgBasebackup names a server to copy, and how to log in.
// +kubebuilder:validation:XValidation:rule="has(self.passwordSecret) || has(self.clientCertificateSecret)",message="pgBasebackup: needs passwordSecret or clientCertificateSecret, to log in with"
// +kubebuilder:validation:XValidation:rule="self.sslMode == 'require' || has(self.caSecret)",message="pgBasebackup.caSecret: must name the CA that signed the server's certificate; only sslMode require does not verify it"
type PostgreSQLPgBasebackup struct {
	// host of the server: a DNS name or an IP address. It must be PostgreSQL itself, not a connection pooler.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9:]([-A-Za-z0-9.:]*[A-Za-z0-9:])?$')",message="host: must be one DNS name or address, such as db.example.com, 192.0.2.7 or fd00::7, without a port"
	Host string `json:"host"`
	// port of the server. Defaults to 5432.
	// +optional
	// +kubebuilder:default=5432
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// user for the copy: a role with the attributes LOGIN and REPLICATION, and a replication line in pg_hba.conf.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][A-Za-z0-9_.@-]*$')",message="user: must be the name of a role: letters, digits, '_', '.', '@' and '-', starting with a letter or '_'"
	User string `json:"user"`
	// passwordSecret names your own Secret with the password of the user; key defaults to "password". It is needed only for the copy and
	// can be deleted afterwards.
	// +optional
	PasswordSecret *fettlev1.SecretKeyReference `json:"passwordSecret,omitempty"`
	// clientCertificateSecret names a Secret with tls.crt and tls.key, for a server that authenticates the user by a certificate. It is
	// needed only for the copy.
	// +optional
	ClientCertificateSecret *fettlev1.LocalReference `json:"clientCertificateSecret,omitempty"`
	// sslMode says how the server certificate is verified: verify-full (signed by the CA and issued for this host), verify-ca (signed by
	// the CA) or require (not verified: open to a man in the middle). All of them encrypt. Defaults to verify-full.
	// +optional
	// +kubebuilder:default=verify-full
	// +kubebuilder:validation:Enum=verify-full;verify-ca;require
	SSLMode string `json:"sslMode,omitempty"`
	// caSecret names a Secret with the certificate of the CA that signed the server certificate; key defaults to "ca.crt".
	// +optional
	CASecret *fettlev1.SecretKeyReference `json:"caSecret,omitempty"`
}
