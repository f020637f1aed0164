package v1alpha1

import fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"

// PostgreSQLPgBasebackup names a server to copy, and how to get in.
// +kubebuilder:validation:XValidation:rule="has(self.passwordSecret) || has(self.clientCertificateSecret)",message="pgBasebackup: needs passwordSecret or clientCertificateSecret, to log in with"
// +kubebuilder:validation:XValidation:rule="self.sslMode == 'require' || has(self.caSecret)",message="pgBasebackup.caSecret: must name the authority that signed the server's certificate; only with sslMode require nobody looks at it"
type PostgreSQLPgBasebackup struct {
	// host of the server: a DNS name or an address. It must be a server itself, and no connection pooler.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9:]([-A-Za-z0-9.:]*[A-Za-z0-9:])?$')",message="host: must be one DNS name or address, such as db.example.com, 192.0.2.7 or fd00::7, without a port"
	Host string `json:"host"`
	// port of the server, 5432 by default.
	// +optional
	// +kubebuilder:default=5432
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// user that may replicate: a role with the attributes LOGIN and REPLICATION, for which pg_hba.conf has a line of replication.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][A-Za-z0-9_.@-]*$')",message="user: must be the name of a role: letters, digits, '_', '.', '@' and '-', starting with a letter or '_'"
	User string `json:"user"`
	// passwordSecret names a Secret of yours with the user's password; its key is "password" by default. The copy alone needs it:
	// it can be deleted afterwards.
	// +optional
	PasswordSecret *fettlev1.SecretKeyReference `json:"passwordSecret,omitempty"`
	// clientCertificateSecret names a Secret with tls.crt and tls.key, for a server that knows the user by a certificate. The copy
	// alone needs it.
	// +optional
	ClientCertificateSecret *fettlev1.LocalReference `json:"clientCertificateSecret,omitempty"`
	// sslMode is how much the server's certificate is looked at: verify-full (by default: it must be of the authority and for this
	// host), verify-ca (of the authority) or require (any; somebody in between could pose as the server). All of them encrypt.
	// +optional
	// +kubebuilder:default=verify-full
	// +kubebuilder:validation:Enum=verify-full;verify-ca;require
	SSLMode string `json:"sslMode,omitempty"`
	// caSecret names a Secret with the certificate of the authority that signed the server's; its key is "ca.crt" by default.
	// +optional
	CASecret *fettlev1.SecretKeyReference `json:"caSecret,omitempty"`
}
