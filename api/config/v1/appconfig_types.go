package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

// AppConfig renders the configuration of an application for one environment into a ConfigMap and, for values from Secrets, into a
// Secret. It restarts the workloads that use them.
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=acfg,categories=fettle
// +kubebuilder:subresource:status
// +kubebuilder:selectablefield:JSONPath=`.spec.application`
// +kubebuilder:selectablefield:JSONPath=`.spec.environment`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="ConfigMap",type=string,JSONPath=`.status.configMapName`
// +kubebuilder:printcolumn:name="RolledOut",type=string,JSONPath=`.status.conditions[?(@.type=="RolledOut")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Application",type=string,priority=1,JSONPath=`.spec.application`
// +kubebuilder:printcolumn:name="Environment",type=string,priority=1,JSONPath=`.spec.environment`
// +kubebuilder:printcolumn:name="Hash",type=string,priority=1,JSONPath=`.status.hash`
// +kubebuilder:printcolumn:name="Revision",type=integer,priority=1,JSONPath=`.status.revision`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name: must be a DNS label of at most 63 characters (lower-case letters, digits and '-'), since it becomes a label of what is published"
// +operator-sdk:csv:customresourcedefinitions:displayName="AppConfig",order=3,resources={{ConfigMap,v1,""},{Secret,v1,""},{Deployment,v1,""},{StatefulSet,v1,""},{DaemonSet,v1,""},{Event,v1,""}}
type AppConfig struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the desired state.
	// +required
	Spec AppConfigSpec `json:"spec,omitzero"`
	// status is the observed state.
	// +optional
	// +kubebuilder:default={phase: "Pending", conditions: {{type: "Ready", status: "Unknown", reason: "Reconciling", message: "waiting for the Fettle operator", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status AppConfigStatus `json:"status,omitzero"`
}

// Conditions returns the conditions of the status.
func (cfg *AppConfig) Conditions() *[]metav1.Condition { return &cfg.Status.Conditions }

// SetObserved sets the phase, and the generation that the status describes.
func (cfg *AppConfig) SetObserved(phase string) {
	cfg.Status.ObservedGeneration, cfg.Status.Phase = cfg.Generation, AppConfigPhase(phase)
}

// Inherited returns the labels and annotations of all children; nil for none.
func (cfg *AppConfig) Inherited() *fettlev1.InheritedMetadata {
	return cfg.Spec.InheritedMetadata.OrNil()
}

// AppConfigList is a list of AppConfigs.
// +kubebuilder:object:root=true
type AppConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AppConfig `json:"items"`
}

// Environment is the environment for which an AppConfig is rendered.
// +kubebuilder:validation:Enum=dev;staging;prod
type Environment string

// Environments.
const (
	EnvironmentDev     Environment = "dev"
	EnvironmentStaging Environment = "staging"
	EnvironmentProd    Environment = "prod"
)

// AppConfigSpec is the desired state.
// +kubebuilder:validation:XValidation:rule="!has(self.config) || !has(self.files) || self.files.all(k, !(k in self.config))",message="files: a name may not be a key of spec.config too, since both become keys of one ConfigMap"
// +kubebuilder:validation:XValidation:rule="(has(self.config) && size(self.config) > 0) || (has(self.files) && size(self.files) > 0) || has(self.environments)",message="config, files: there is nothing to render; set at least one key"
// +kubebuilder:validation:XValidation:rule="!has(self.rollback) || !has(self.target) || !has(self.target.historyLimit) || self.target.historyLimit > 0",message="rollback: there is nothing to go back to while target.historyLimit is 0; raise it"
// +kubebuilder:validation:XValidation:rule="!has(self.rollout) || !has(self.rollout.autoRollback) || !self.rollout.autoRollback || !has(self.target) || !has(self.target.historyLimit) || self.target.historyLimit > 0",message="rollout.autoRollback: there is nothing to go back to while target.historyLimit is 0; raise it"
// +kubebuilder:validation:XValidation:rule="has(self.target) && has(self.target.name) == (has(oldSelf.target) && has(oldSelf.target.name)) && (!has(self.target.name) || self.target.name == oldSelf.target.name) && (has(self.target.name) || self.application == oldSelf.application)",message="target.name, application: the name of what is published can't be changed, since workloads refer to it; make a new AppConfig"
// +kubebuilder:validation:XValidation:rule="!has(self.valuesFrom) || self.valuesFrom.all(v, (!has(v.configMapRef) || v.configMapRef.name != (has(self.target) && has(self.target.name) ? self.target.name : self.application + '-config')) && (!has(v.secretRef) || v.secretRef.name != (has(self.target) && has(self.target.name) ? self.target.name : self.application + '-config')))",message="valuesFrom: an AppConfig can't take values from what it publishes itself (target.name, by default <application>-config), since each publication would change them"
type AppConfigSpec struct {
	// application is the name of the application, for example "shop".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="application: must be a DNS label (lower-case letters, digits and '-'), since it becomes part of names"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Application",order=1
	Application string `json:"application"`

	// environment is dev, staging or prod. It selects the entry of spec.environments.
	// +required
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Environment",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:dev","urn:alm:descriptor:com.tectonic.ui:select:staging","urn:alm:descriptor:com.tectonic.ui:select:prod"},order=2
	Environment Environment `json:"environment"`

	// config is the template of each key of the ConfigMap, for example DB_URL: "postgres://{{ .Values.dbHost }}/{{ .Application }}".
	// +optional
	// +kubebuilder:validation:MaxProperties=500
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[-_a-zA-Z0-9]([-._a-zA-Z0-9]{0,252})$'))",message="config: each key consists of 1 to 253 letters, digits, '-', '_' and '.', and does not start with '.'"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Configuration",order=3
	Config map[string]string `json:"config,omitempty"`

	// values are the variables of the templates: {{ .Values.name }}. They override those of spec.valuesFrom.
	// +optional
	// +kubebuilder:validation:MaxProperties=500
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[-._a-zA-Z0-9]{1,253}$'))",message="values: each name consists of 1 to 253 letters, digits, '-', '_' and '.'"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Values"
	Values map[string]string `json:"values,omitempty"`

	// valuesFrom adds the keys of ConfigMaps and Secrets as variables. If two sources have the same key, the later one wins. A key
	// whose template uses a value from a Secret is published in the Secret, never in the ConfigMap. A source can be the output of
	// another AppConfig, but not in a cycle.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Values From",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	ValuesFrom []AppConfigValuesSource `json:"valuesFrom,omitempty"`

	// files is the template of each file, for example "app.yaml". A file is a key of the ConfigMap, like those of spec.config. A file
	// whose name ends in .json, .yaml, .yml or .properties must be well-formed.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[-_a-zA-Z0-9]([-._a-zA-Z0-9]{0,252})$'))",message="files: each name consists of 1 to 253 letters, digits, '-', '_' and '.', and does not start with '.'"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Files",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Files map[string]string `json:"files,omitempty"`

	// environments overrides spec.values, spec.config and spec.files for one environment, key by key. One manifest can serve all
	// environments.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Environments"
	Environments *AppConfigEnvironments `json:"environments,omitempty"`

	// schema is the JSON Schema of the rendered contents. Contents that violate it are not published.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Schema",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Schema *AppConfigSchema `json:"schema,omitempty"`

	// target is the ConfigMap and the Secret to publish.
	// +optional
	// +kubebuilder:default={}
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Target"
	Target AppConfigTarget `json:"target,omitzero"`

	// rollout says how the dependent workloads are restarted when the configuration changes.
	// +optional
	// +kubebuilder:default={}
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Rollout"
	Rollout AppConfigRollout `json:"rollout,omitzero"`

	// rollback publishes an earlier revision instead of the rendered contents while it is set.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Rollback",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Rollback *AppConfigRollback `json:"rollback,omitempty"`

	// preview renders the templates without publishing them. status.preview lists the keys that would change. Defaults to false.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Preview",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced","urn:alm:descriptor:com.tectonic.ui:booleanSwitch"}
	Preview bool `json:"preview,omitempty"`

	// paused stops reconciliation: Fettle renders, publishes and restarts nothing. The published revision stays. Defaults to false.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Paused",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced","urn:alm:descriptor:com.tectonic.ui:booleanSwitch"}
	Paused bool `json:"paused,omitempty"`

	// inheritedMetadata are labels and annotations of the published ConfigMaps and Secrets, such as app.kubernetes.io/part-of. Those of
	// spec.target win. A change restarts nothing, and earlier revisions keep theirs.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Inherited Metadata",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	InheritedMetadata *fettlev1.InheritedMetadata `json:"inheritedMetadata,omitempty"`
}

// AppConfigStatus is the observed state.
type AppConfigStatus struct {
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Observed Generation"
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase summarizes the conditions: Pending, Publishing, RollingOut, Running, Degraded, Failed, Paused or Terminating.
	// +optional
	// +kubebuilder:validation:Enum=Pending;Publishing;RollingOut;Running;Degraded;Failed;Paused;Terminating
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Phase",xDescriptors={"urn:alm:descriptor:io.kubernetes.phase"}
	Phase AppConfigPhase `json:"phase,omitempty"`
	// configMapName is the name of the published ConfigMap. Empty before the first publication.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="ConfigMap",xDescriptors={"urn:alm:descriptor:io.kubernetes:ConfigMap"}
	ConfigMapName string `json:"configMapName,omitempty"`
	// secretName is the name of the Secret with the keys that use values from Secrets. Empty if there are no such keys.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Secret",xDescriptors={"urn:alm:descriptor:io.kubernetes:Secret"}
	SecretName string `json:"secretName,omitempty"`
	// hash of the published contents.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Hash"
	Hash string `json:"hash,omitempty"`
	// revision is the number of the published revision. The same contents keep their number while the revision is in the history.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Revision"
	Revision int64 `json:"revision,omitempty"`
	// lastGoodRevision is the last revision that all dependents ran. A rollback without a number restores it.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Last Good Revision"
	LastGoodRevision int64 `json:"lastGoodRevision,omitempty"`
	// failedHash is the hash of the contents that were rolled back automatically. They are not published again until the rendered
	// contents change.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Failed Hash"
	FailedHash string `json:"failedHash,omitempty"`
	// failureMessage is the reason for the rollback of failedHash.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Failure Message"
	FailureMessage string `json:"failureMessage,omitempty"`
	// keys are the names of the published keys, including those of the Secret.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=600
	// +kubebuilder:validation:items:MaxLength=253
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Keys"
	Keys []string `json:"keys,omitempty"`
	// warnings lists possible mistakes, such as a value in the ConfigMap that looks like a password.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=512
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Warnings"
	Warnings []string `json:"warnings,omitempty"`
	// preview lists the keys that would change, while spec.preview is true. It never contains values.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Preview"
	Preview *AppConfigPreview `json:"preview,omitempty"`
	// lastRolloutTime is the time of the last restart of a dependent.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Last Rollout Time"
	LastRolloutTime metav1.Time `json:"lastRolloutTime,omitzero"`
	// dependents are the workloads that use the configuration, with their state. Those with problems come first; at most 100 are
	// listed.
	// +optional
	// +listType=map
	// +listMapKey=kind
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Dependents"
	Dependents []AppConfigDependent `json:"dependents,omitempty"`
	// conditions are Ready, the conditions that it summarizes (Rendered, Published, RolledOut), and Stalled if only a change by a
	// person can make the AppConfig ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Conditions",xDescriptors={"urn:alm:descriptor:io.kubernetes.conditions"}
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
