package v1alpha1

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

// Extension is the name of an extension that the image has.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([a-z0-9_-]*[a-z0-9])?$')",message="extension: must be the name of an extension, such as pg_trgm or uuid-ossp"
// +kubebuilder:validation:XValidation:rule="!(self in ['file_fdw', 'adminpack', 'plsh']) && !self.matches('(^|_)pl[a-z0-9]+u$')",message="extension: lets its users out of the database and is refused"
type Extension string

// AgentUpdatePolicy says when an instance gets the agent of an upgraded operator.
type AgentUpdatePolicy string

// Values of AgentUpdatePolicy.
const (
	// AgentUpdateOnRestart: whenever the pod is re-created for any reason.
	AgentUpdateOnRestart AgentUpdatePolicy = "OnRestart"
	// AgentUpdateManual: only while the annotation fettle.dev/upgrade-agent is "true".
	AgentUpdateManual AgentUpdatePolicy = "Manual"
	// AgentUpdateAutomatic: by a rolling update after each upgrade of the operator.
	AgentUpdateAutomatic AgentUpdatePolicy = "Automatic"
)

// ReplicaRecovery says what happens to a standby that cannot follow the primary.
type ReplicaRecovery string

// Values of ReplicaRecovery.
const (
	ReplicaRecoveryAutomatic ReplicaRecovery = "Automatic"
	ReplicaRecoveryManual    ReplicaRecovery = "Manual"
)

// DeletionPolicy says what becomes of data when its object is deleted.
type DeletionPolicy string

// What becomes of volumes and passwords.
const (
	DeletionRetain DeletionPolicy = "Retain"
	DeletionDelete DeletionPolicy = "Delete"
)

// PostgreSQLAutoGrow makes the volumes larger when they fill up.
type PostgreSQLAutoGrow struct {
	// threshold is the use of a volume, in percent, from which it grows; 80 by default.
	// +optional
	// +kubebuilder:default=80
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=95
	Threshold int32 `json:"threshold,omitempty"`
	// step is by how much a volume grows: a size such as "10Gi", or a part of its size such as "20%", which is the default. It grows by
	// as many steps at once as it takes to fall below threshold. Choose a large step where the storage can grow a volume only every few
	// hours.
	// +optional
	// +kubebuilder:default="20%"
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^([1-9][0-9]?%|100%|[1-9][0-9]{0,9}(Mi|Gi|Ti))$')",message="step: must be a size such as 10Gi or a part of the volume's size such as 20%"
	Step string `json:"step,omitempty"`
	// max is the size beyond which no volume grows by itself.
	// +required
	Max resource.Quantity `json:"max"`
}

// PostgreSQLDatabase is a further database.
type PostgreSQLDatabase struct {
	// name of the database.
	// +required
	Name Identifier `json:"name"`
	// owner is one of spec.roles, or the owner of spec.databaseName, which is the default.
	// +optional
	Owner Identifier `json:"owner,omitempty"`
	// extensions that the database has. One that is taken away stays in the database.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=50
	Extensions []Extension `json:"extensions,omitempty"`
}

// PostgreSQLOwner is the role that owns spec.databaseName. It is never a superuser and never replicates.
type PostgreSQLOwner struct {
	// name of the role. Defaults to spec.databaseName. It cannot be changed.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Owner Name"
	Name Identifier `json:"name,omitempty"`
	// passwordSecret names your own Secret with the password of the owner; key defaults to "password". Fettle copies the password into
	// the Secret "<name>-credentials", which applications use in either case. A change of the Secret changes the password at once:
	// clients that still use the former password are rejected. Unset by default: Fettle generates a password.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Owner Password Secret"
	PasswordSecret *fettlev1.SecretKeyReference `json:"passwordSecret,omitempty"`
}

// PostgreSQLRole is a further role. It is never a superuser and never replicates.
// +kubebuilder:validation:XValidation:rule="self.login || !has(self.passwordSecret)",message="passwordSecret: only a role that logs in has a password"
type PostgreSQLRole struct {
	// name of the role.
	// +required
	Name Identifier `json:"name"`
	// login is false for a role that only groups others; true by default.
	// +optional
	// +kubebuilder:default=true
	Login *bool `json:"login,omitempty"`
	// createdb lets the role make databases; false by default.
	// +optional
	CreateDB bool `json:"createdb,omitempty"`
	// inRoles are the roles whose rights it has: others of spec.roles, or PostgreSQL's own such as pg_read_all_data. Not all of
	// PostgreSQL's own roles are accepted: members of pg_maintain, for example, can lock system catalogs and so stop the server.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=20
	InRoles []ParentRole `json:"inRoles,omitempty"`
	// connectionLimit is the greatest number of its connections, by each of its two logins; -1, the default, is none.
	// +optional
	// +kubebuilder:default=-1
	// +kubebuilder:validation:Minimum=-1
	// +kubebuilder:validation:Maximum=262143
	ConnectionLimit *int32 `json:"connectionLimit,omitempty"`
	// passwordSecret names your own Secret with the password of the role; key defaults to "password". A change of the Secret changes the
	// password at once. Unset by default: Fettle generates a password in the Secret "<name>-role-<role>" ('_' in the role's name becomes
	// '-').
	// +optional
	PasswordSecret *fettlev1.SecretKeyReference `json:"passwordSecret,omitempty"`
}

// ParentRole is the name of a role whose rights another role has.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([a-z0-9_]*[a-z0-9])?$') && (!self.startsWith('pg_') || self in ['pg_monitor', 'pg_read_all_data', 'pg_write_all_data', 'pg_read_all_settings', 'pg_read_all_stats', 'pg_stat_scan_tables', 'pg_signal_backend', 'pg_checkpoint', 'pg_use_reserved_connections']) && !(self in ['postgres', 'streaming_replica']) && !self.startsWith('fettle')",message="inRoles: must be one of spec.roles, or a role of PostgreSQL that does not reach beyond the database, such as pg_read_all_data"
type ParentRole string

// PostgreSQLHBARule admits or rejects connections. All connections but those inside the pod use TLS.
type PostgreSQLHBARule struct {
	// method is scram-sha-256 (by default: the role's password), cert (a client certificate of the cluster's own CA) or reject.
	// +optional
	// +kubebuilder:default=scram-sha-256
	// +kubebuilder:validation:Enum=scram-sha-256;cert;reject
	Method string `json:"method,omitempty"`
	// databases that the rule is about; all by default.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=50
	Databases []Identifier `json:"databases,omitempty"`
	// roles that the rule is about; all by default.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=50
	Roles []Identifier `json:"roles,omitempty"`
	// cidr is the range of addresses that the rule is about, such as "10.0.0.0/8"; all by default.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="cidr: must be a range of addresses such as 10.0.0.0/8 or fd00::/8"
	CIDR string `json:"cidr,omitempty"`
}

// PostgreSQLSynchronous makes commits wait for standbys.
type PostgreSQLSynchronous struct {
	// number is how many standbys must confirm a commit before it returns to the client. Any standbys count. While fewer of them are
	// ready, commits wait. Must be less than replicas; defaults to 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=8
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Number of Standbys"
	Number int32 `json:"number,omitempty"`
}

// PostgreSQLBootstrap says how the data directory is made.
// +kubebuilder:validation:XValidation:rule="has(self.initdb) != has(self.pgBasebackup)",message="bootstrap: must have one of initdb, which makes empty databases, and pgBasebackup, which copies those of a server; not both"
type PostgreSQLBootstrap struct {
	// initdb makes an empty database cluster. It is the default where bootstrap is not given.
	// +optional
	Initdb PostgreSQLInitdb `json:"initdb,omitzero"`
	// pgBasebackup makes the data a copy of another server's, which runs and goes on running.
	// +optional
	PgBasebackup *PostgreSQLPgBasebackup `json:"pgBasebackup,omitempty"`
}

// PostgreSQLInitdb are the options of initdb. The encoding is that of the locale, UTF8 by default, and pages have checksums.
type PostgreSQLInitdb struct {
	// locale of the databases, "C.UTF-8" by default: sorts by code point, in the same way with every image.
	// +optional
	// +kubebuilder:default=C.UTF-8
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z][A-Za-z0-9_.@-]*$')",message="locale: must be the name of a locale of the image, such as en_US.utf8"
	Locale string `json:"locale,omitempty"`
	// icuLocale has the databases sort by a locale of ICU, such as "de-DE", instead of the C library's; from version 15.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z][A-Za-z0-9_@=;-]*$')",message="icuLocale: must be the name of a locale of ICU, such as de-DE"
	ICULocale string `json:"icuLocale,omitempty"`
	// walSegmentSizeMB is the size of a file of the write-ahead log, in MiB; 16 by default.
	// +optional
	// +kubebuilder:default=16
	// +kubebuilder:validation:Enum=1;2;4;8;16;32;64;128;256;512;1024
	WALSegmentSizeMB int32 `json:"walSegmentSizeMB,omitempty"`
}

// PostgreSQLMonitoring has Prometheus scrape the instances.
type PostgreSQLMonitoring struct {
	// enabled makes a PodMonitor and a PrometheusRule; false by default. The instances serve metrics either way.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
	// interval between two scrapes, "30s" by default.
	// +optional
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]{0,4}(s|m)$')",message="interval: must be seconds or minutes, such as 30s"
	Interval string `json:"interval,omitempty"`
	// labels of the PodMonitor and the PrometheusRule, where Prometheus selects by them.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	Labels map[string]string `json:"labels,omitempty"`
}

// PostgreSQLNetworkPolicy says who may reach the pods, where the cluster's network enforces NetworkPolicies.
// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || self.enabled || !has(self.from) && !has(self.metricsFrom)",message="networkPolicy: from and metricsFrom have no effect where enabled is false"
type PostgreSQLNetworkPolicy struct {
	// enabled is false for no NetworkPolicy of Fettle's; true by default. Connections that exist already are not closed by a change.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
	// from are the clients that may connect to PostgreSQL (port 5432), besides the instances themselves; everybody by default.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	From []networkingv1.NetworkPolicyPeer `json:"from,omitempty"`
	// metricsFrom are the peers that may read metrics (port 9187), such as Prometheus; everybody by default.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	MetricsFrom []networkingv1.NetworkPolicyPeer `json:"metricsFrom,omitempty"`
}

// PostgreSQLTLS shapes the certificates.
type PostgreSQLTLS struct {
	// dnsNames are further names in the server's certificate, besides those of the Services and pods.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.all(n, n.matches('^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'))",message="dnsNames: each must be a DNS name in lower case, such as db.example.com"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="DNS Names"
	DNSNames []string `json:"dnsNames,omitempty"`
	// issuerRef names an issuer of cert-manager that makes the certificate which clients are shown. By default Fettle makes it. What
	// instances know each other by is always Fettle's own.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Issuer"
	IssuerRef *PostgreSQLIssuerRef `json:"issuerRef,omitempty"`
}

// PostgreSQLIssuerRef names an issuer of cert-manager, or one that works with it.
// +kubebuilder:validation:XValidation:rule="(has(self.group) && self.group != 'cert-manager.io') || !has(self.kind) || self.kind in ['Issuer', 'ClusterIssuer']",message="kind: must be Issuer or ClusterIssuer in the group cert-manager.io"
type PostgreSQLIssuerRef struct {
	// name of the issuer; an Issuer is in the PostgreSQL's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="name: must be the name of an issuer, such as internal-ca"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Issuer Name"
	Name string `json:"name"`
	// kind of the issuer: Issuer (by default) or ClusterIssuer; in another group a kind of that group.
	// +optional
	// +kubebuilder:default=Issuer
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Z][A-Za-z0-9]*$')",message="kind: must be the kind of an issuer, such as ClusterIssuer"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Issuer Kind"
	Kind string `json:"kind,omitempty"`
	// group of its API, "cert-manager.io" by default; an issuer from outside of cert-manager has another one, and kinds of its own.
	// +optional
	// +kubebuilder:default=cert-manager.io
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="group: must be the group of an API, such as cert-manager.io"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Issuer Group"
	Group string `json:"group,omitempty"`
}
