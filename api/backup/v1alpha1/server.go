package v1alpha1

import fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"

// DatabaseServer is a database server and how to log in.
// +kubebuilder:validation:XValidation:rule="self.type == 'mongodb' || has(self.connection.username) || has(self.connection.credentialsSecretRef) || has(self.connection.uriSecretRef)",message="connection: username, credentialsSecretRef or uriSecretRef must be set"
type DatabaseServer struct {
	// type of the server: postgresql, mysql (or MariaDB) or mongodb.
	// +required
	// +kubebuilder:validation:Enum=postgresql;mysql;mongodb
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Type",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:postgresql","urn:alm:descriptor:com.tectonic.ui:select:mysql","urn:alm:descriptor:com.tectonic.ui:select:mongodb"}
	Type ServerType `json:"type"`
	// connection says where the server is, and how to log in.
	// +required
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Connection"
	Connection Connection `json:"connection,omitzero"`
}

// ServerType is the type of a database server.
type ServerType string

// Values of ServerType.
const (
	ServerPostgreSQL ServerType = "postgresql"
	ServerMySQL      ServerType = "mysql"
	ServerMongoDB    ServerType = "mongodb"
)

// Connection to a database server.
// +kubebuilder:validation:XValidation:rule="has(self.database) != has(self.databases) || has(self.uriSecretRef) && !has(self.database)",message="connection: must have one of database and databases"
// +kubebuilder:validation:XValidation:rule="has(self.host) != has(self.uriSecretRef)",message="connection: must have one of host and uriSecretRef"
// +kubebuilder:validation:XValidation:rule="!has(self.uriSecretRef) || !has(self.port) && !has(self.username) && !has(self.credentialsSecretRef) && (!has(self.tls) || !has(self.tls.mode) || self.tls.mode == 'prefer')",message="connection: port, username, credentialsSecretRef and tls.mode must not be set beside uriSecretRef, since the URI contains them"
type Connection struct {
	// uriSecretRef names a connection URI in a Secret of the same namespace, instead of host, port, username, credentialsSecretRef and
	// tls.mode: postgresql://user:password@host:5432/database?sslmode=require, mysql://user:password@host:3306/database?ssl-mode=REQUIRED
	// or mongodb://user:password@host1,host2/database?replicaSet=rs0. Its database is the default of database. key defaults to "uri".
	// +optional
	URISecretRef *fettlev1.SecretKeyReference `json:"uriSecretRef,omitempty"`
	// host is the name or address of the server, such as db.example.com.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$') || isIP(self)",message="host: must be a DNS name or an IP address, without a port"
	Host string `json:"host,omitempty"`
	// port of the server. Defaults to 5432, 3306 or 27017.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// database is the name of the database.
	// +optional
	Database DatabaseName `json:"database,omitempty"`
	// databases are the names of several databases, instead of database.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=50
	Databases []DatabaseName `json:"databases,omitempty"`
	// username to log in with. Defaults to the value in credentialsSecretRef.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^\\\\p{C}]+$')",message="username: must not contain control characters"
	Username string `json:"username,omitempty"`
	// credentialsSecretRef names the Secret with the password. Unset by default: no password.
	// +optional
	CredentialsSecretRef *LoginSecret `json:"credentialsSecretRef,omitempty"`
	// tls of the connection.
	// +optional
	// +kubebuilder:default={mode: prefer}
	TLS ConnectionTLS `json:"tls,omitzero"`
}

// DatabaseName is the name of a database.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9_][A-Za-z0-9_.-]*$') && !self.contains('..')",message="database: must be a name of letters, digits, '_', '-' and '.', not starting with '-' or '.'"
type DatabaseName string

// LoginSecret names a Secret of the same namespace with a user name and a password.
type LoginSecret struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="name: must be the name of a Secret, such as shop-db"
	Name string `json:"name"`
	// usernameKey is the key of the user name. Defaults to "username"; not read if connection.username is set.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-A-Za-z0-9_.]*[-A-Za-z0-9_]$')",message="usernameKey: must be a key of a Secret: letters, digits, '-', '_' and '.'"
	UsernameKey string `json:"usernameKey,omitempty"`
	// passwordKey is the key of the password. Defaults to "password".
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-A-Za-z0-9_.]*[-A-Za-z0-9_]$')",message="passwordKey: must be a key of a Secret: letters, digits, '-', '_' and '.'"
	PasswordKey string `json:"passwordKey,omitempty"`
}

// ConnectionTLS says how a connection to a database is encrypted and checked.
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || !(self.mode in ['verify-ca', 'verify-full']) || has(self.caSecretRef)",message="tls: modes verify-ca and verify-full need caSecretRef"
type ConnectionTLS struct {
	// mode: disable, prefer (TLS if the server has it), require (TLS, no check of the certificate), verify-ca or verify-full (as libpq
	// names them). Defaults to prefer.
	// +optional
	// +kubebuilder:default=prefer
	// +kubebuilder:validation:Enum=disable;prefer;require;verify-ca;verify-full
	Mode TLSMode `json:"mode,omitempty"`
	// caSecretRef names the CA certificates that the server's certificate is checked against; key defaults to "ca.crt".
	// +optional
	CASecretRef *fettlev1.SecretKeyReference `json:"caSecretRef,omitempty"`
}

// TLSMode is a mode of TLS as libpq names it.
type TLSMode string

// Values of TLSMode.
const (
	TLSDisable    TLSMode = "disable"
	TLSPrefer     TLSMode = "prefer"
	TLSRequire    TLSMode = "require"
	TLSVerifyCA   TLSMode = "verify-ca"
	TLSVerifyFull TLSMode = "verify-full"
)
