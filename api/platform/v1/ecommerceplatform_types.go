package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

// EcommercePlatform runs an online shop: a database, a cache, a backend and a frontend. It creates one AppStack with these components.
// All objects, pods and volumes included, have the label "platform" with its name.
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=ecp,categories=fettle
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Components",type=string,JSONPath=`.status.readyComponents`
// +kubebuilder:printcolumn:name="Environment",type=string,JSONPath=`.spec.environment`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="URL",type=string,priority=1,JSONPath=`.status.endpoints[0].url`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 31 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name: must be a DNS label of at most 31 characters (lower-case letters, digits and '-', starting with a letter), since the child objects are named after it"
// +operator-sdk:csv:customresourcedefinitions:displayName="E-commerce Platform",order=1,resources={{AppStack,v1,""},{WebApp,v1,""},{PostgreSQL,v1alpha1,""},{Event,v1,""}}
type EcommercePlatform struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the desired state.
	// +required
	Spec EcommercePlatformSpec `json:"spec,omitzero"`
	// status is the observed state.
	// +optional
	// +kubebuilder:default={phase: "Pending", conditions: {{type: "Ready", status: "Unknown", reason: "Reconciling", message: "waiting for the Fettle operator", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status AppStackStatus `json:"status,omitzero"`
}

// Conditions returns the conditions of the status.
func (p *EcommercePlatform) Conditions() *[]metav1.Condition { return &p.Status.Conditions }

// SetObserved sets the phase, and the generation that the status describes.
func (p *EcommercePlatform) SetObserved(phase string) {
	p.Status.ObservedGeneration, p.Status.Phase = p.Generation, Phase(phase)
}

// LabelPlatform is on all objects of an EcommercePlatform. Its value is the name of the EcommercePlatform.
const LabelPlatform = "platform"

// Inherited returns the labels and annotations of all children.
func (p *EcommercePlatform) Inherited() *fettlev1.InheritedMetadata {
	return inherited(p.Spec.InheritedMetadata, LabelPlatform, p.Name)
}

// EcommercePlatformList is a list of EcommercePlatforms.
// +kubebuilder:object:root=true
type EcommercePlatformList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EcommercePlatform `json:"items"`
}

// EcommercePlatformSpec is the desired state.
type EcommercePlatformSpec struct {
	// environment selects the defaults: development, staging or production. Defaults to development. A field that you set is never
	// changed; status.effective shows the result.
	// +optional
	// +kubebuilder:default=development
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Environment",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:development","urn:alm:descriptor:com.tectonic.ui:select:staging","urn:alm:descriptor:com.tectonic.ui:select:production"},order=1
	Environment Environment `json:"environment,omitempty"`

	// frontend is the web application that customers see. It is created last.
	// +required
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Frontend",order=2
	Frontend EcommerceApplication `json:"frontend"`

	// backend is the web application that the frontend calls. It gets DATABASE_URL or MYSQL_URL, and REDIS_URL. The frontend gets
	// BACKEND_HOST and BACKEND_PORT.
	// +required
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Backend",order=3
	Backend EcommerceApplication `json:"backend"`

	// database of the backend.
	// +optional
	// +kubebuilder:default={}
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Database",order=4
	Database EcommerceDatabase `json:"database,omitzero"`

	// cache of the backend.
	// +optional
	// +kubebuilder:default={}
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Cache",order=5
	Cache EcommerceCache `json:"cache,omitzero"`

	// monitoring by Prometheus.
	// +optional
	// +kubebuilder:default={}
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Monitoring",order=6
	Monitoring EcommerceMonitoring `json:"monitoring,omitzero"`

	// ingress publishes the frontend. Unset by default: the frontend has an address inside the cluster.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Ingress",order=7
	Ingress *EcommerceIngress `json:"ingress,omitempty"`

	// deletionPolicy says what happens to the volumes and passwords of the database when the platform is deleted. Retain, the default,
	// keeps them. Delete deletes them.
	// +optional
	// +kubebuilder:default=Retain
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Deletion Policy",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced","urn:alm:descriptor:com.tectonic.ui:select:Retain","urn:alm:descriptor:com.tectonic.ui:select:Delete"}
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// paused stops reconciliation: Fettle creates, changes and deletes nothing. Each component keeps running. Defaults to false.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Paused",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced","urn:alm:descriptor:com.tectonic.ui:booleanSwitch"}
	Paused bool `json:"paused,omitempty"`

	// inheritedMetadata are labels and annotations of all objects, pods and volumes included. A change starts rollouts.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Inherited Metadata",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	InheritedMetadata *fettlev1.InheritedMetadata `json:"inheritedMetadata,omitempty"`
}

// EcommerceApplication is a web application.
type EcommerceApplication struct {
	// image is the container image to run.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9][a-zA-Z0-9._:/@+-]*$')",message="image: must be an image reference such as registry.example.com/team/app:v1, without spaces"
	Image string `json:"image"`
	// replicas is the number of pods. Defaults to that of the environment: 1 in development, otherwise 2.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Replicas *int32 `json:"replicas,omitempty"`
	// webApp has further fields of a WebApp, such as port, env and resources: kubectl explain webapp.spec. Unknown fields are rejected.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	WebApp *runtime.RawExtension `json:"webApp,omitempty"`
}

// EcommerceDatabase is the database of the backend.
// +kubebuilder:validation:XValidation:rule="!has(self.externalSecretRef) || (!has(self.version) && !has(self.storage) && !has(self.replicas) && !has(self.backup))",message="database: an external one has no version, storage, replicas or backup here"
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'mysql' || !has(self.replicas) || self.replicas == 1",message="database.replicas: MySQL is a single server; use postgresql for a highly available database"
// +kubebuilder:validation:XValidation:rule="has(self.type) == has(oldSelf.type) && (!has(self.type) || self.type == oldSelf.type)",message="database.type: cannot be changed; create a new EcommercePlatform and copy the data"
type EcommerceDatabase struct {
	// type is postgresql or mysql. Defaults to postgresql, which is highly available with more than one replica; mysql is a single
	// server. It cannot be changed.
	// +optional
	// +kubebuilder:default=postgresql
	// +kubebuilder:validation:Enum=postgresql;mysql
	Type string `json:"type,omitempty"`
	// version of the database. Defaults to "17" for postgresql and "8.4" for mysql.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Version string `json:"version,omitempty"`
	// storage is the size of the volume of each instance. Defaults to that of the environment: 10Gi in development, 50Gi in staging and
	// 100Gi in production. It can grow, not shrink.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('128Mi')) >= 0",message="storage: must be at least 128Mi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity(string(oldSelf))) >= 0",message="storage: cannot be reduced, because a volume cannot shrink"
	Storage *resource.Quantity `json:"storage,omitempty"`
	// replicas is the number of instances of a postgresql. Defaults to that of the environment: 1 in development, 2 in staging and 3 in
	// production.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9
	Replicas *int32 `json:"replicas,omitempty"`
	// backup of the database. In production it is enabled, and needs a destination. In staging it is enabled if there is a destination.
	// +optional
	Backup *EcommerceBackup `json:"backup,omitempty"`
	// externalSecretRef uses a database outside of the platform, such as a managed one: it names the Secret with its URL, user and password included; key
	// defaults to "uri".
	// +optional
	ExternalSecretRef *fettlev1.SecretKeyReference `json:"externalSecretRef,omitempty"`
}

// EcommerceBackup is the backup of the database.
type EcommerceBackup struct {
	// enabled makes backups. Defaults to that of the environment.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// schedule of the backups, see Backup. Defaults to "0 2 * * *", every night at 2:00 UTC.
	// +optional
	// +kubebuilder:validation:MaxLength=100
	Schedule string `json:"schedule,omitempty"`
	// retention is how long backups are kept, such as "30d", see Backup. Defaults to "30d".
	// +optional
	// +kubebuilder:validation:MaxLength=6
	Retention string `json:"retention,omitempty"`
	// destination is where backups are stored. Defaults to that of the operator (--backup-destination).
	// +optional
	Destination *backupv1alpha1.Destination `json:"destination,omitempty"`
}

// EcommerceCache is the cache of the backend.
type EcommerceCache struct {
	// enabled runs the cache. Defaults to true.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
	// type is Valkey or Redis. Defaults to Valkey.
	// +optional
	// +kubebuilder:default=Valkey
	// +kubebuilder:validation:Enum=Valkey;Redis
	Type CacheType `json:"type,omitempty"`
	// memory is what the contents of the cache may take. Defaults to "256Mi".
	// +optional
	// +kubebuilder:default="256Mi"
	Memory resource.Quantity `json:"memory,omitzero"`
}

// EcommerceMonitoring is the monitoring of the platform.
type EcommerceMonitoring struct {
	// enabled makes Prometheus scrape the database, if the cluster has the Prometheus Operator. Defaults to true. Without the operator
	// it has no effect. Web applications that serve metrics set webApp.monitoring.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
}

// EcommerceIngress publishes the frontend.
type EcommerceIngress struct {
	// host is the host name, for example "shop.example.com".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host"`
	// className is the IngressClass. Defaults to the default class of the cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ClassName string `json:"className,omitempty"`
	// tlsSecretName is the Secret of type kubernetes.io/tls with the certificate of the host.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TLSSecretName string `json:"tlsSecretName,omitempty"`
}
