package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

// PostgreSQL runs a PostgreSQL cluster: one primary and optional standbys with automatic failover.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=postgresqls,singular=postgresql,shortName=fpg,categories=fettle
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.instances,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Primary",type=string,JSONPath=`.status.primary`
// +kubebuilder:printcolumn:name="Instances",type=integer,JSONPath=`.status.instances`
// +kubebuilder:printcolumn:name="Ready-Instances",type=integer,JSONPath=`.status.readyInstances`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.currentVersion`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 52 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name: must be a DNS label of at most 52 characters (lower-case letters, digits and '-', starting with a letter), since Services and pods are named after it"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.backup) || !has(self.spec.backup.enabled) || !self.spec.backup.enabled || self.metadata.name.size() <= 40",message="metadata.name: must have at most 40 characters where backup is enabled, since runs and Jobs are named after it"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.preferredPrimary) || self.spec.preferredPrimary.size() == 1 || (self.spec.preferredPrimary.startsWith(self.metadata.name) && self.spec.preferredPrimary.size() == self.metadata.name.size() + 2)",message="preferredPrimary: must be the name of a pod of this PostgreSQL, such as <name>-1, or its number"
// +operator-sdk:csv:customresourcedefinitions:displayName="PostgreSQL",order=1,resources={{StatefulSet,v1,""},{Service,v1,""},{Secret,v1,""},{ServiceAccount,v1,""},{Role,v1,""},{RoleBinding,v1,""},{PodDisruptionBudget,v1,""},{NetworkPolicy,v1,""},{PersistentVolumeClaim,v1,""},{Pod,v1,""},{Event,v1,""}}
type PostgreSQL struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the desired state.
	// +required
	Spec PostgreSQLSpec `json:"spec,omitzero"`
	// status is the observed state.
	// +optional
	// +kubebuilder:default={phase: "Pending", ready: false, conditions: {{type: "Ready", status: "Unknown", reason: "Reconciling", message: "waiting for the Fettle operator", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status PostgreSQLStatus `json:"status,omitzero"`
}

// Conditions returns the conditions of the status.
func (pg *PostgreSQL) Conditions() *[]metav1.Condition { return &pg.Status.Conditions }

// SetObserved sets the phase, and the generation that the status describes.
func (pg *PostgreSQL) SetObserved(phase string) {
	pg.Status.ObservedGeneration, pg.Status.Phase = pg.Generation, PostgreSQLPhase(phase)
	pg.Status.Ready = meta.IsStatusConditionTrue(pg.Status.Conditions, fettlev1.Ready)
}

// Inherited returns the labels and annotations of all children; nil for none.
func (pg *PostgreSQL) Inherited() *fettlev1.InheritedMetadata {
	return pg.Spec.InheritedMetadata.OrNil()
}

// PostgreSQLList is a list of PostgreSQLs.
// +kubebuilder:object:root=true
type PostgreSQLList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PostgreSQL `json:"items"`
}

// Identifier is the name of a database or role that needs no quotes in SQL.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([a-z0-9_]*[a-z0-9])?$')",message="name: must be lower-case letters, digits and '_', starting with a letter and not ending with '_', so that it needs no quotes in SQL"
// +kubebuilder:validation:XValidation:rule="!(self in ['postgres', 'template0', 'template1', 'streaming_replica', 'replication', 'public', 'none', 'all', 'sameuser', 'samerole', 'samegroup']) && !self.startsWith('pg_') && !self.startsWith('fettle')",message="name: is reserved by PostgreSQL or Fettle; choose another one"
type Identifier string

// PostgreSQLSpec is the desired state of a PostgreSQL.
// +kubebuilder:validation:XValidation:rule="!has(self.synchronous) || self.synchronous.number < self.replicas",message="synchronous.number: must be below replicas, since the primary does not count: with 3 replicas at most 2"
// +kubebuilder:validation:XValidation:rule="!has(self.preferredPrimary) || int(self.preferredPrimary.substring(self.preferredPrimary.lastIndexOf('-') + 1)) < self.replicas",message="preferredPrimary: there is no such instance; the highest number is replicas - 1"
// +kubebuilder:validation:XValidation:rule="!has(self.databases) || !self.databases.exists(d, d.name == self.databaseName)",message="databases: must not list databaseName again; give its extensions in spec.extensions"
// +kubebuilder:validation:XValidation:rule="!has(self.roles) || !self.roles.exists(r, r.name == (has(self.owner) && has(self.owner.name) ? self.owner.name : self.databaseName))",message="roles: must not list the owner of databaseName; give its name in spec.owner"
// +kubebuilder:validation:XValidation:rule="!has(self.databases) || self.databases.all(d, !has(d.owner) || d.owner == (has(self.owner) && has(self.owner.name) ? self.owner.name : self.databaseName) || (has(self.roles) && self.roles.exists(r, r.name == d.owner)))",message="databases: each owner must be one of spec.roles, or the owner of databaseName"
// +kubebuilder:validation:XValidation:rule="(has(self.owner) && has(self.owner.name) ? self.owner.name : self.databaseName) == (has(oldSelf.owner) && has(oldSelf.owner.name) ? oldSelf.owner.name : oldSelf.databaseName)",message="owner.name: cannot be changed"
// +kubebuilder:validation:XValidation:rule="!has(self.autoGrow) || quantity(string(self.autoGrow.max)).compareTo(quantity(string(self.storage))) >= 0",message="autoGrow.max: must not be below storage"
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="storageClassName: cannot be changed, because a volume cannot change its class"
// +kubebuilder:validation:XValidation:rule="(has(self.image) && self.image.matches('^[^@]*:[^/@]*alpine')) == (has(oldSelf.image) && oldSelf.image.matches('^[^@]*:[^/@]*alpine'))",message="image: cannot be changed between Debian and Alpine, because the data files belong to another user and may be sorted in another way; create a new PostgreSQL and copy the data with pg_dump"
// +kubebuilder:validation:XValidation:rule="!has(self.bootstrap.initdb) || !has(self.bootstrap.initdb.icuLocale) || int(self.version.split('.')[0]) >= 15",message="bootstrap.initdb.icuLocale: needs version 15 or later"
type PostgreSQLSpec struct {
	// version of PostgreSQL: "13" to "18", or a minor version such as "16.4". The major version cannot be changed. A change of the minor
	// version replaces the pods one at a time, the primary last.
	// +required
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:XValidation:rule="self.matches('^1[3-8]([.](0|[1-9][0-9]?))?$')",message="version: must be 13, 14, 15, 16, 17 or 18, or a minor version of one of them such as 16.4"
	// +kubebuilder:validation:XValidation:rule="self.split('.')[0] == oldSelf.split('.')[0]",message="version: a change to another major version is not supported; create a new PostgreSQL and copy the data with pg_dump"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Version",order=1
	Version string `json:"version"`

	// storage is the size of the volume of each instance, for example "10Gi". The minimum is "128Mi". It can grow, not shrink. Volumes are
	// resized without a restart.
	// +required
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('128Mi')) >= 0",message="storage: must be at least 128Mi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity(string(oldSelf))) >= 0",message="storage: cannot be reduced, because a volume cannot shrink"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Storage",order=2
	Storage resource.Quantity `json:"storage"`

	// storageClassName is the StorageClass of the volumes. Unset by default: the default class of the cluster. It cannot be changed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Storage Class",xDescriptors={"urn:alm:descriptor:io.kubernetes:StorageClass"}
	StorageClassName *string `json:"storageClassName,omitempty"`

	// autoGrow resizes the volumes when they fill up. Unset by default: Fettle resizes volumes only when you raise storage.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Volumes Grow",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	AutoGrow *PostgreSQLAutoGrow `json:"autoGrow,omitempty"`

	// replicas is the number of instances: one primary and replicas - 1 standbys. Defaults to 1. Instances are added and removed without a
	// restart of the others.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Replicas",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:podCount"},order=3
	Replicas *int32 `json:"replicas,omitempty"`

	// databaseName is the first database, which Fettle creates. Defaults to "app". Its owner is spec.owner; the Secret
	// "<name>-credentials" has all that a client needs to connect. It cannot be changed.
	// +optional
	// +kubebuilder:default=app
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="databaseName: cannot be changed; add another one to databases"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Database Name",order=4
	DatabaseName Identifier `json:"databaseName,omitempty"`

	// owner is the role that owns databaseName. By default it has the name of the database and a generated password.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Owner",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Owner PostgreSQLOwner `json:"owner,omitzero"`

	// extensions to create in the database databaseName. Fettle never drops an extension: one that you remove from the list stays.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=50
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Extensions",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Extensions []Extension `json:"extensions,omitempty"`

	// databases lists additional databases. Fettle never drops a database: one that you remove from the list stays.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=50
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Databases",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Databases []PostgreSQLDatabase `json:"databases,omitempty"`

	// roles lists additional roles, each with a password in its own Secret. Fettle never drops a role: one that you remove from the list
	// stays.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=50
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Roles",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Roles []PostgreSQLRole `json:"roles,omitempty"`

	// parameters are settings of postgresql.conf, for example {max_connections: 200, work_mem: 64MB}. A value is an integer or a string;
	// quote on, off and decimals. Fettle rejects the parameters that it manages itself and those that break replication or let users
	// out of the database. Instances reload, or restart one at a time if the parameter needs a restart.
	// +optional
	// +kubebuilder:validation:MaxProperties=200
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[a-z_][a-z0-9_]{0,62}([.][a-z_][a-z0-9_]{0,62})?$'))",message="parameters: each name must be that of a parameter in lower case, such as work_mem or pg_stat_statements.max"
	// +kubebuilder:validation:XValidation:rule="self.all(k, type(self[k]) == int || self[k].size() <= 1024)",message="parameters: each value must have at most 1024 characters"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Parameters",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Parameters map[string]intstr.IntOrString `json:"parameters,omitempty"`

	// pgHBA lists the rules of client authentication. The first rule that matches applies; a connection that matches none is rejected.
	// Unset by default: every role may connect to every database from every address, over TLS with its password. A change restarts
	// nothing.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Client Authentication",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	PgHBA []PostgreSQLHBARule `json:"pgHBA,omitempty"`

	// synchronous enables synchronous replication: a commit returns only after standbys have confirmed it, so a failover loses none.
	// Unset by default: commits do not wait, and a failover can lose the last ones, see failover. A change restarts nothing.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Synchronous Replication"
	Synchronous *PostgreSQLSynchronous `json:"synchronous,omitempty"`

	// preferredPrimary is the pod, or its number, that should be the primary. Fettle switches over to this instance as soon as it is ready
	// and has all data. It never causes data loss: where the instance lacks data, another one stays or becomes the primary. Unset by
	// default: any instance may be the primary.
	// +optional
	// +kubebuilder:validation:MaxLength=54
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z]([-a-z0-9]*[a-z0-9])?-)?[0-8]$')",message="preferredPrimary: must be the name of a pod, such as demo-1, or its number"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Preferred Primary",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	PreferredPrimary string `json:"preferredPrimary,omitempty"`

	// bootstrap says how the first instance creates the data directory. It cannot be changed.
	// +optional
	// +kubebuilder:default={initdb: {}}
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="bootstrap: cannot be changed, because the data directory is created once"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Bootstrap",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Bootstrap PostgreSQLBootstrap `json:"bootstrap,omitzero"`

	// backup makes base backups on a schedule and archives WAL continuously, so that a new PostgreSQL can be restored from any point in
	// time. Fettle creates a Backup of the same name. Unset by default: no backups. A change restarts nothing.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Backup"
	Backup *PostgreSQLBackup `json:"backup,omitempty"`

	// image is the container image of PostgreSQL. Defaults to docker.io/library/postgres:<version>. It must be based on Debian, or on Alpine
	// if its tag contains "alpine". A change replaces the pods one at a time, the primary last.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9][a-zA-Z0-9._:/@+-]*$')",message="image: must be an image reference such as docker.io/library/postgres:16-alpine, without spaces"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Image",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Image string `json:"image,omitempty"`

	// imagePullPolicy says when the images are pulled. Defaults to Always for the tag latest, otherwise IfNotPresent.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Image Pull Policy",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced","urn:alm:descriptor:com.tectonic.ui:imagePullPolicy"}
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// imagePullSecrets names Secrets with the credentials for the registries of the images.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=10
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Image Pull Secrets",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	ImagePullSecrets []fettlev1.LocalReference `json:"imagePullSecrets,omitempty"`

	// resources sets the CPU and memory requests and limits of each instance. Unset by default. A change replaces the pods one at a time,
	// the primary last.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.limits) || ['cpu', 'memory', 'ephemeral-storage'].all(k, !(k in self.requests) || !(k in self.limits) || quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) <= 0)",message="resources: no request may be above its limit"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Resources",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:resourceRequirements"}
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// lease sets the timing of failure detection: with the defaults a standby becomes the primary 10 to 12 seconds after the last renewal
	// of a primary that is lost. The fields are named as those of Kubernetes' leader election. A change restarts nothing.
	// +optional
	// +kubebuilder:default={leaseDurationSeconds: 10, renewDeadlineSeconds: 7, retryPeriodSeconds: 2}
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Lease",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Lease PostgreSQLLease `json:"lease,omitzero"`

	// failover limits how much data a failover may lose without synchronous replication.
	// +optional
	// +kubebuilder:default={maximumLag: "32Mi"}
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Failover",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Failover PostgreSQLFailover `json:"failover,omitzero"`

	// replicaRecovery says what happens to a standby that cannot follow the primary: pg_rewind failed, the primary has removed WAL that
	// the standby needs, PostgreSQL failed to start 5 times in a row, or nothing was received for 5 minutes while the primary was
	// reachable. Automatic, the default, replaces the standby's data with a new base backup. Manual waits until the annotation
	// fettle.dev/reclone names the standby.
	// +optional
	// +kubebuilder:default=Automatic
	// +kubebuilder:validation:Enum=Automatic;Manual
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Replica Recovery",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced","urn:alm:descriptor:com.tectonic.ui:select:Automatic","urn:alm:descriptor:com.tectonic.ui:select:Manual"}
	ReplicaRecovery ReplicaRecovery `json:"replicaRecovery,omitempty"`

	// monitoring creates a PodMonitor and a PrometheusRule. It needs the Prometheus Operator.
	// +optional
	// +kubebuilder:default={}
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Monitoring",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Monitoring PostgreSQLMonitoring `json:"monitoring,omitzero"`

	// networkPolicy configures the NetworkPolicy of the pods. It admits clients to PostgreSQL, Prometheus to the metrics, and only the
	// instances and the operator to the agents. A change restarts nothing.
	// +optional
	// +kubebuilder:default={}
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Network Policy",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	NetworkPolicy PostgreSQLNetworkPolicy `json:"networkPolicy,omitzero"`

	// tls configures the certificates, which Fettle creates and renews. A change restarts nothing.
	// +optional
	// +kubebuilder:default={}
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="TLS",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	TLS PostgreSQLTLS `json:"tls,omitzero"`

	// agentUpdatePolicy says when an instance gets the Fettle agent of an upgraded operator. OnRestart, the default: whenever the pod is
	// re-created for any reason; the upgrade itself restarts nothing. Manual: only while the annotation fettle.dev/upgrade-agent is "true".
	// Automatic: at once, by a rolling update with the primary last. A change of this field alone restarts pods only if it is set to
	// Automatic. The metric fettle_postgresql_agent_outdated counts the instances with another agent than the operator's.
	// +optional
	// +kubebuilder:default=OnRestart
	// +kubebuilder:validation:Enum=OnRestart;Manual;Automatic
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Agent Update Policy",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced","urn:alm:descriptor:com.tectonic.ui:select:OnRestart","urn:alm:descriptor:com.tectonic.ui:select:Manual","urn:alm:descriptor:com.tectonic.ui:select:Automatic"}
	AgentUpdatePolicy AgentUpdatePolicy `json:"agentUpdatePolicy,omitempty"`

	// topologySpreadConstraints of the pods. Unset by default: instances are spread over nodes and then zones as far as there are some,
	// and no pod is kept from a node. An empty list spreads nothing. A constraint without labelSelector selects the pods of this
	// PostgreSQL. A change replaces the pods one at a time.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Topology Spread Constraints",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitzero"`

	// nodeSelector lists labels that a node must have to run a pod. A change replaces the pods one at a time.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Node Selector",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations of the pods. A change replaces the pods one at a time.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Tolerations",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// affinity of the pods. A change replaces the pods one at a time.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Affinity",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// priorityClassName of the pods. A change replaces the pods one at a time.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Priority Class",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// podTemplate is merged onto the pod template that Fettle generates, as a strategic merge patch. It has the fields of a
	// PodTemplateSpec: labels, annotations, sidecars, init containers, volumes, host aliases and DNS. The container of PostgreSQL has the
	// name "postgres" and takes env and volumeMounts. Added containers get the security context of the profile Restricted. Unknown fields,
	// and fields that Fettle relies on, are rejected. A change replaces the pods one at a time.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Pod Template",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	PodTemplate *runtime.RawExtension `json:"podTemplate,omitempty"`

	// inheritedMetadata are labels and annotations of all child objects and pods, such as app.kubernetes.io/part-of. A change replaces
	// the pods one at a time.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Inherited Metadata",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	InheritedMetadata *fettlev1.InheritedMetadata `json:"inheritedMetadata,omitempty"`

	// terminationGracePeriodSeconds is how long an instance may take to stop, in seconds. Defaults to 60. A fast shutdown of PostgreSQL gets
	// all of it but 8 s, and at least half, also in a switchover. An immediate shutdown follows, with crash recovery at the next start. The
	// checkpoint before a switchover is not included. Raise it for large memories on slow disks. A change replaces the pods one at a time.
	// +optional
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=3600
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Termination Grace Period",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`

	// paused stops Fettle from applying this spec. Defaults to false. Failover, the renewal of certificates and the growth of volumes
	// continue. Fettle restarts no pod while paused is true.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Paused",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced","urn:alm:descriptor:com.tectonic.ui:booleanSwitch"}
	Paused bool `json:"paused,omitempty"`

	// hibernated stops all instances, the primary first, and keeps their volumes. Defaults to false.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Hibernated",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced","urn:alm:descriptor:com.tectonic.ui:booleanSwitch"}
	Hibernated bool `json:"hibernated,omitempty"`

	// deletionPolicy says what happens to volumes and passwords when this PostgreSQL is deleted. Retain, the default, keeps them, and a
	// PostgreSQL that is re-created with the same name reuses them. Delete deletes them. The operator deletes the volumes: they stay if the
	// operator is not running when this PostgreSQL is deleted.
	// +optional
	// +kubebuilder:default=Retain
	// +kubebuilder:validation:Enum=Retain;Delete
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Deletion Policy",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced","urn:alm:descriptor:com.tectonic.ui:select:Retain","urn:alm:descriptor:com.tectonic.ui:select:Delete"}
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}
