package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

// AppStack runs the components of an application in the order of their dependencies: web applications, databases, caches and
// configuration. A component starts when all that it depends on is ready, and gets the addresses and credentials of what it connects to.
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=stk,categories=fettle
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Components",type=string,JSONPath=`.status.readyComponents`
// +kubebuilder:printcolumn:name="Environment",type=string,JSONPath=`.spec.environment`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="URL",type=string,priority=1,JSONPath=`.status.endpoints[0].url`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name: must be a DNS label (lower-case letters, digits and '-', starting with a letter), since the child objects are named after it"
// +kubebuilder:validation:XValidation:rule="self.spec.components.all(c, self.metadata.name.size() + c.name.size() < ((has(c.postgreSQL) || has(c.mySQL)) ? 40 : 52))",message="metadata.name: with '-' and the name of a component it must have at most 40 characters for a database and 52 otherwise, since child objects have this name"
// +operator-sdk:csv:customresourcedefinitions:displayName="Application Stack",order=1,resources={{WebApp,v1,""},{PostgreSQL,v1alpha1,""},{AppConfig,v1,""},{Backup,v1alpha1,""},{StatefulSet,v1,""},{Service,v1,""},{Secret,v1,""},{NetworkPolicy,v1,""},{Event,v1,""}}
type AppStack struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the desired state.
	// +required
	Spec AppStackSpec `json:"spec,omitzero"`
	// status is the observed state.
	// +optional
	// +kubebuilder:default={phase: "Pending", conditions: {{type: "Ready", status: "Unknown", reason: "Reconciling", message: "waiting for the Fettle operator", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status AppStackStatus `json:"status,omitzero"`
}

// Conditions returns the conditions of the status.
func (s *AppStack) Conditions() *[]metav1.Condition { return &s.Status.Conditions }

// SetObserved sets the phase, and the generation that the status describes.
func (s *AppStack) SetObserved(phase string) {
	s.Status.ObservedGeneration, s.Status.Phase = s.Generation, Phase(phase)
}

// Inherited returns the labels and annotations of all children.
func (s *AppStack) Inherited() *fettlev1.InheritedMetadata {
	return inherited(s.Spec.InheritedMetadata, LabelPartOf, s.Name)
}

// LabelPartOf is on all objects of an AppStack. Its value is the name of the AppStack.
const LabelPartOf = "app.kubernetes.io/part-of"

// inherited is what the user gave, with one more label.
func inherited(m *fettlev1.InheritedMetadata, label, value string) *fettlev1.InheritedMetadata {
	all := &fettlev1.InheritedMetadata{Labels: map[string]string{label: value}}
	if m != nil {
		all.Labels, all.Annotations = fettlev1.Inherit(m.Labels, all.Labels), m.Annotations
	}
	return all
}

// AppStackList is a list of AppStacks.
// +kubebuilder:object:root=true
type AppStackList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AppStack `json:"items"`
}

// Environment selects the defaults of components.
// +kubebuilder:validation:Enum=development;staging;production
type Environment string

// Environments.
const (
	Development Environment = "development"
	Staging     Environment = "staging"
	Production  Environment = "production"
)

// DeletionPolicy says what happens to the data of databases when they are deleted.
// +kubebuilder:validation:Enum=Retain;Delete
type DeletionPolicy string

// Deletion policies.
const (
	Retain DeletionPolicy = "Retain"
	Delete DeletionPolicy = "Delete"
)

// AppStackSpec is the desired state.
// +kubebuilder:validation:XValidation:rule="self.components.all(c, !has(c.dependsOn) || c.dependsOn.all(d, d != c.name && self.components.exists(o, o.name == d)))",message="dependsOn: each name must be the name of another component of this AppStack"
// +kubebuilder:validation:XValidation:rule="self.components.all(c, !has(c.connections) || c.connections.all(n, n.from != c.name && self.components.exists(o, o.name == n.from)))",message="connections: from must be the name of another component of this AppStack"
type AppStackSpec struct {
	// environment fills fields that the components leave out, such as the number of instances and the size of volumes: development,
	// staging or production. A field that you set is never changed. status.effective shows the result. Unset by default: the components
	// have the defaults of their kinds.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Environment",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:development","urn:alm:descriptor:com.tectonic.ui:select:staging","urn:alm:descriptor:com.tectonic.ui:select:production"},order=1
	Environment Environment `json:"environment,omitempty"`

	// components are the parts of the application, in any order. The child object of a component is named "<name of the AppStack>-<name
	// of the component>". A component that is removed from the list is deleted, after those that depend on it.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Components",order=2
	Components []AppStackComponent `json:"components"`

	// deletionPolicy says what happens to the volumes and passwords of databases when they or the AppStack are deleted. Retain, the
	// default, keeps them, and a database that is created again with the same name uses them. Delete deletes them. A component can
	// override it.
	// +optional
	// +kubebuilder:default=Retain
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Deletion Policy",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:Retain","urn:alm:descriptor:com.tectonic.ui:select:Delete"},order=3
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// componentTimeout is how long a component may take to become ready, without the time in which it waits for others, before Ready is False with the reason DependencyTimeout or
	// ComponentTimeout, at least "10s". Defaults to "15m". Fettle keeps trying after it.
	// +optional
	// +kubebuilder:default="15m"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10s') && duration(self) <= duration('24h')",message="componentTimeout: must be a duration from 10s to 24h, such as 15m"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Component Timeout",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	ComponentTimeout metav1.Duration `json:"componentTimeout,omitzero"`

	// paused stops reconciliation: Fettle creates, changes and deletes no component. Each component keeps running under its own
	// controller. Defaults to false.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Paused",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced","urn:alm:descriptor:com.tectonic.ui:booleanSwitch"}
	Paused bool `json:"paused,omitempty"`

	// inheritedMetadata are labels and annotations of all child objects and of all that these create, pods and volumes included. Fettle
	// adds the label app.kubernetes.io/part-of with the name of the AppStack. A change starts rollouts.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Inherited Metadata",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	InheritedMetadata *fettlev1.InheritedMetadata `json:"inheritedMetadata,omitempty"`
}

// AppStackComponent is one part of the application.
// +kubebuilder:validation:XValidation:rule="[has(self.webApp), has(self.postgreSQL), has(self.mySQL), has(self.cache), has(self.config), has(self.external)].filter(x, x).size() == 1",message="components: each must have exactly one of webApp, postgreSQL, mySQL, cache, config and external"
// +kubebuilder:validation:XValidation:rule="has(self.webApp) || !has(self.connections) || self.connections.size() == 0",message="connections: only a webApp connects to other components"
type AppStackComponent struct {
	// name of the component, for example "backend".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=38
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="name: must be lower-case letters, digits and '-', starting with a letter, since objects and variables are named after it"
	Name string `json:"name"`

	// webApp is the spec of a WebApp: kubectl explain webapp.spec. Unknown fields are rejected.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	WebApp *runtime.RawExtension `json:"webApp,omitempty"`

	// postgreSQL is the spec of a PostgreSQL: kubectl explain postgresql.spec. Unknown fields are rejected.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	PostgreSQL *runtime.RawExtension `json:"postgreSQL,omitempty"`

	// mySQL is a single MySQL or MariaDB server with a volume. It has no standby: while its node is lost, so is the database.
	// +optional
	MySQL *MySQL `json:"mySQL,omitempty"`

	// cache is a single Valkey or Redis server without persistence.
	// +optional
	Cache *Cache `json:"cache,omitempty"`

	// config is the spec of an AppConfig: kubectl explain appconfig.spec. Unknown fields are rejected. application defaults to the name
	// of the child object, environment to that of the AppStack.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Config *runtime.RawExtension `json:"config,omitempty"`

	// external is a database or cache outside of the stack, such as a managed one.
	// +optional
	External *External `json:"external,omitempty"`

	// dependsOn names the components that must be ready, in their current version, before this one is created or changed. Defaults to
	// the usual order of an online shop: a component named backend depends on those named database, db, cache and config, and frontend
	// on backend, as far as they exist. An empty list means none. Connections are dependencies too.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=31
	// +kubebuilder:validation:items:MaxLength=38
	DependsOn []string `json:"dependsOn,omitzero"`

	// connections say which addresses and credentials the pods of a webApp get as environment variables, always by reference to a
	// Secret. Defaults to one for each dependency. The pods restart when a Secret changes.
	// +optional
	// +listType=map
	// +listMapKey=from
	// +kubebuilder:validation:MaxItems=31
	Connections []Connection `json:"connections,omitzero"`

	// suspended leaves the component as it is: Fettle does not create, change or delete its child object. Components that depend on it
	// still wait for it. Defaults to false.
	// +optional
	Suspended bool `json:"suspended,omitempty"`
}

// Connection gives a web application what it needs to connect to another component.
type Connection struct {
	// from is the name of the other component.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=38
	From string `json:"from"`

	// prefix of the environment variables. With it, the URL of a database or cache is in <prefix>URL, the address of a webApp in
	// <prefix>HOST and <prefix>PORT, and the keys of a config are prefixed with it. Defaults to DATABASE_URL for PostgreSQL, MYSQL_URL,
	// REDIS_URL for a cache, <COMPONENT>_HOST and <COMPONENT>_PORT for a webApp, and the keys themselves for a config.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[A-Za-z_][A-Za-z0-9_]*$')",message="prefix: must be the beginning of the name of an environment variable, such as SESSION_"
	Prefix string `json:"prefix,omitempty"`
}

// External is a database or cache that is not part of the stack.
type External struct {
	// type of the server: PostgreSQL, MySQL or Cache. It selects the name of the environment variable.
	// +required
	// +kubebuilder:validation:Enum=PostgreSQL;MySQL;Cache
	Type ExternalType `json:"type"`

	// secretRef names the Secret of the same namespace with the URL of the server, user and password included; key defaults to "uri".
	// +required
	SecretRef fettlev1.SecretKeyReference `json:"secretRef"`
}

// ExternalType is the type of a server that is not part of the stack.
type ExternalType string

// Types of external servers.
const (
	ExternalPostgreSQL ExternalType = "PostgreSQL"
	ExternalMySQL      ExternalType = "MySQL"
	ExternalCache      ExternalType = "Cache"
)
