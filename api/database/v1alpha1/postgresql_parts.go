package v1alpha1

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

// Extension is the name of an extension that the image has.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([a-z0-9_-]*[a-z0-9])?$')",message="extension: must be the name of an extension, such as pg_trgm or uuid-ossp"
// +kubebuilder:validation:XValidation:rule="!(self in ['file_fdw', 'adminpack', 'plsh']) && !self.matches('(^|_)pl[a-z0-9]+u$')",message="extension: lets its users out of the database and is rejected"
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

// DeletionPolicy says what happens to volumes and passwords when the PostgreSQL is deleted.
type DeletionPolicy string

// Values of DeletionPolicy.
const (
	DeletionRetain DeletionPolicy = "Retain"
	DeletionDelete DeletionPolicy = "Delete"
)

// PostgreSQLAutoGrow resizes the volumes when they fill up.
type PostgreSQLAutoGrow struct {
	// threshold is the used space of a volume, in percent, at which Fettle resizes the volume. Defaults to 80.
	// +optional
	// +kubebuilder:default=80
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=95
	Threshold int32 `json:"threshold,omitempty"`
	// step is the amount by which a volume grows: a size such as "10Gi", or a percentage of its size such as "20%". Defaults to "20%".
	// Fettle adds as many steps at once as are needed to fall below threshold. Choose a large step if your storage allows only one
	// resize in several hours.
	// +optional
	// +kubebuilder:default="20%"
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^([1-9][0-9]?%|100%|[1-9][0-9]{0,9}(Mi|Gi|Ti))$')",message="step: must be a size such as 10Gi or a part of the volume's size such as 20%"
	Step string `json:"step,omitempty"`
	// max is the largest size that autoGrow gives a volume. It must not be less than storage.
	// +required
	Max resource.Quantity `json:"max"`
}

// PostgreSQLDatabase is an additional database.
type PostgreSQLDatabase struct {
	// name of the database.
	// +required
	Name Identifier `json:"name"`
	// owner is the role that owns the database: one of spec.roles, or spec.owner. Defaults to spec.owner.
	// +optional
	Owner Identifier `json:"owner,omitempty"`
	// extensions to create in the database. Fettle never drops an extension: one that you remove from the list stays.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=50
	Extensions []Extension `json:"extensions,omitempty"`
}

// PostgreSQLOwner is the role that owns spec.databaseName. It is never a superuser and never replicates.
type PostgreSQLOwner struct {
	// name of the role. Defaults to spec.databaseName. It cannot be changed.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Owner Name",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Name Identifier `json:"name,omitempty"`
	// passwordSecret names your own Secret with the password of the owner; key defaults to "password". Fettle copies the password into
	// the Secret "<name>-credentials", which applications use in either case. A change of the Secret changes the password at once:
	// clients that still use the former password are rejected. Unset by default: Fettle generates a password.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Owner Password Secret",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	PasswordSecret *fettlev1.SecretKeyReference `json:"passwordSecret,omitempty"`
}

// PostgreSQLRole is an additional role. It is never a superuser and cannot replicate.
// +kubebuilder:validation:XValidation:rule="self.login || !has(self.passwordSecret)",message="passwordSecret: only a role that logs in has a password"
type PostgreSQLRole struct {
	// name of the role.
	// +required
	Name Identifier `json:"name"`
	// login allows the role to log in. Defaults to true. Set false for a group role.
	// +optional
	// +kubebuilder:default=true
	Login *bool `json:"login,omitempty"`
	// createdb allows the role to create databases. Defaults to false.
	// +optional
	CreateDB bool `json:"createdb,omitempty"`
	// inRoles lists the roles that this role is a member of: others of spec.roles, or predefined ones such as pg_read_all_data. Fettle
	// rejects predefined roles that reach beyond the database or can block the server, such as pg_maintain.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=20
	InRoles []ParentRole `json:"inRoles,omitempty"`
	// connectionLimit is the maximum number of concurrent connections of the role, for each of its two logins. Defaults to -1, no limit.
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

// ParentRole is the name of a role that another role is a member of.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([a-z0-9_]*[a-z0-9])?$') && (!self.startsWith('pg_') || self in ['pg_monitor', 'pg_read_all_data', 'pg_write_all_data', 'pg_read_all_settings', 'pg_read_all_stats', 'pg_stat_scan_tables', 'pg_signal_backend', 'pg_checkpoint', 'pg_use_reserved_connections']) && !(self in ['postgres', 'streaming_replica']) && !self.startsWith('fettle')",message="inRoles: must be one of spec.roles, or a role of PostgreSQL that does not reach beyond the database, such as pg_read_all_data"
type ParentRole string

// PostgreSQLHBARule is a line of pg_hba.conf: it accepts or rejects connections. Connections from outside the pod always use TLS.
type PostgreSQLHBARule struct {
	// method of authentication: scram-sha-256 (the password of the role), cert (a client certificate of this PostgreSQL's CA) or reject.
	// Defaults to scram-sha-256.
	// +optional
	// +kubebuilder:default=scram-sha-256
	// +kubebuilder:validation:Enum=scram-sha-256;cert;reject
	Method string `json:"method,omitempty"`
	// databases that the rule applies to. Defaults to all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=50
	Databases []Identifier `json:"databases,omitempty"`
	// roles that the rule applies to. Defaults to all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=50
	Roles []Identifier `json:"roles,omitempty"`
	// cidr is the range of client addresses that the rule applies to, such as "10.0.0.0/8". Defaults to all.
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
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Number of Standbys",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Number int32 `json:"number,omitempty"`
}

// PostgreSQLBootstrap says how the first instance creates the data directory.
// +kubebuilder:validation:XValidation:rule="[has(self.initdb), has(self.pgBasebackup), has(self.recovery)].filter(x, x).size() == 1",message="bootstrap: must have one of initdb, which creates empty databases, pgBasebackup, which copies another server, and recovery, which restores a backup"
type PostgreSQLBootstrap struct {
	// initdb creates an empty database cluster. This is the default.
	// +optional
	Initdb PostgreSQLInitdb `json:"initdb,omitzero"`
	// pgBasebackup copies the data of another running server by streaming replication.
	// +optional
	PgBasebackup *PostgreSQLPgBasebackup `json:"pgBasebackup,omitempty"`
	// recovery restores a Physical backup and replays archived WAL, to its end or to a target.
	// +optional
	Recovery *PostgreSQLRecovery `json:"recovery,omitempty"`
}

// Copies reports whether the first data are a copy of other data.
func (b *PostgreSQLBootstrap) Copies() bool { return b.PgBasebackup != nil || b.Recovery != nil }

// PostgreSQLBackup backs up a PostgreSQL: base backups on a schedule, and continuous archiving of WAL.
type PostgreSQLBackup struct {
	// enabled makes base backups and archives WAL. Defaults to false. Where it is set to false again, the stored backups stay.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Backup Enabled",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced","urn:alm:descriptor:com.tectonic.ui:booleanSwitch"}
	Enabled bool `json:"enabled,omitempty"`
	// schedule of the base backups, see Backup. Defaults to "0 2 * * *", every night at 2:00 UTC.
	// +optional
	// +kubebuilder:default="0 2 * * *"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:XValidation:rule="self.matches('^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[0-9A-Za-z*/,?-]+( +[0-9A-Za-z*/,?-]+){4})$') && !self.contains('TZ=')",message="schedule: must be a cron expression with five fields such as \"0 2 * * *\", or a macro such as @daily"
	Schedule string `json:"schedule,omitempty"`
	// retention is how long base backups and the WAL after them are kept, such as "30d" or "10c", see Backup. Defaults to "30d".
	// +optional
	// +kubebuilder:default="30d"
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=6
	// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]{0,3}[hdwmyc]$')",message="retention: must be a number with a unit, such as 30d (h, d, w, m or y), or a number of backups such as 10c"
	Retention string `json:"retention,omitempty"`
	// verify restores the last base backup and its WAL into a temporary server on a schedule, see Backup. Unset by default.
	// +optional
	Verify *backupv1alpha1.BackupVerification `json:"verify,omitempty"`
	// destination is where base backups and WAL are stored, below "<prefix>/<namespace>/<name>/". While it is unset, nothing is backed up,
	// and the condition Archiving says so.
	// +optional
	Destination *backupv1alpha1.Destination `json:"destination,omitempty"`
}

// PostgreSQLRecovery restores a Physical backup. Without a target, all archived WAL is replayed.
// +kubebuilder:validation:XValidation:rule="has(self.backup) != has(self.location)",message="recovery: must have one of backup, the name of a Backup, and location, a place in an object store"
// +kubebuilder:validation:XValidation:rule="[has(self.targetTime), has(self.targetLSN), has(self.targetXID), has(self.targetName), has(self.targetImmediate)].filter(x, x).size() <= 1",message="recovery: must have at most one of targetTime, targetLSN, targetXID, targetName and targetImmediate"
type PostgreSQLRecovery struct {
	// backup is the name of a Physical Backup in the same namespace: that of the PostgreSQL with this name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="backup: must be the name of a Backup"
	Backup string `json:"backup,omitempty"`
	// location is a place in an object store, for a Backup that no longer exists or is in another cluster. Its run, if set, is the base
	// backup to start from.
	// +optional
	Location                      *backupv1alpha1.BackupLocation `json:"location,omitempty"`
	backupv1alpha1.RecoveryTarget `json:",inline"`
}

// PostgreSQLInitdb are the options of initdb. The encoding is that of the locale, UTF8 by default, and pages have checksums.
type PostgreSQLInitdb struct {
	// locale of the databases. Defaults to "C.UTF-8", which sorts by code point, in the same way with every image.
	// +optional
	// +kubebuilder:default=C.UTF-8
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z][A-Za-z0-9_.@-]*$')",message="locale: must be the name of a locale of the image, such as en_US.utf8"
	Locale string `json:"locale,omitempty"`
	// icuLocale makes the databases sort by an ICU locale, such as "de-DE", instead of locale. It needs version 15 or later. Unset by
	// default.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z][A-Za-z0-9_@=;-]*$')",message="icuLocale: must be the name of a locale of ICU, such as de-DE"
	ICULocale string `json:"icuLocale,omitempty"`
	// walSegmentSizeMB is the size of a WAL segment file, in MiB. Defaults to 16.
	// +optional
	// +kubebuilder:default=16
	// +kubebuilder:validation:Enum=1;2;4;8;16;32;64;128;256;512;1024
	WALSegmentSizeMB int32 `json:"walSegmentSizeMB,omitempty"`
}

// PostgreSQLMonitoring configures monitoring by the Prometheus Operator.
type PostgreSQLMonitoring struct {
	// enabled creates a PodMonitor and a PrometheusRule. Defaults to false. The instances serve metrics on port 9187 in either case.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
	// interval between two scrapes. Defaults to "30s".
	// +optional
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]{0,4}(s|m)$')",message="interval: must be seconds or minutes, such as 30s"
	Interval string `json:"interval,omitempty"`
	// labels to add to the PodMonitor and the PrometheusRule, for a Prometheus that selects them by label.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	Labels map[string]string `json:"labels,omitempty"`
}

// PostgreSQLNetworkPolicy says which peers may connect to the pods, where the network of the cluster enforces NetworkPolicies.
// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || self.enabled || !has(self.from) && !has(self.metricsFrom)",message="networkPolicy: from and metricsFrom have no effect where enabled is false"
type PostgreSQLNetworkPolicy struct {
	// enabled creates a NetworkPolicy. Defaults to true. A change does not close existing connections.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
	// from lists the clients that may connect to PostgreSQL (port 5432), besides the instances themselves. Defaults to all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	From []networkingv1.NetworkPolicyPeer `json:"from,omitempty"`
	// metricsFrom lists the peers that may read metrics (port 9187), such as Prometheus. Defaults to all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	MetricsFrom []networkingv1.NetworkPolicyPeer `json:"metricsFrom,omitempty"`
}

// PostgreSQLTLS configures the certificates.
type PostgreSQLTLS struct {
	// dnsNames lists additional names in the server certificate, besides those of the Services and pods. A change restarts nothing.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.all(n, n.matches('^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'))",message="dnsNames: each must be a DNS name in lower case, such as db.example.com"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="DNS Names",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	DNSNames []string `json:"dnsNames,omitempty"`
	// issuerRef names a cert-manager issuer for the server certificate that clients see. Unset by default: Fettle's own CA issues it.
	// The certificates between instances are always issued by Fettle's own CA.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Issuer",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	IssuerRef *PostgreSQLIssuerRef `json:"issuerRef,omitempty"`
}

// PostgreSQLIssuerRef names a cert-manager issuer, or an external issuer for cert-manager.
// +kubebuilder:validation:XValidation:rule="(has(self.group) && self.group != 'cert-manager.io') || !has(self.kind) || self.kind in ['Issuer', 'ClusterIssuer']",message="kind: must be Issuer or ClusterIssuer in the group cert-manager.io"
type PostgreSQLIssuerRef struct {
	// name of the issuer. An Issuer must be in the namespace of the PostgreSQL.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="name: must be the name of an issuer, such as internal-ca"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Issuer Name",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Name string `json:"name"`
	// kind of the issuer: Issuer or ClusterIssuer, or a kind of another group. Defaults to Issuer.
	// +optional
	// +kubebuilder:default=Issuer
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Z][A-Za-z0-9]*$')",message="kind: must be the kind of an issuer, such as ClusterIssuer"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Issuer Kind",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Kind string `json:"kind,omitempty"`
	// group of the issuer's API. Defaults to "cert-manager.io". External issuers have other groups.
	// +optional
	// +kubebuilder:default=cert-manager.io
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="group: must be the group of an API, such as cert-manager.io"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Issuer Group",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Group string `json:"group,omitempty"`
}
