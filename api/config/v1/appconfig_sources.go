package v1

import (
	"k8s.io/apimachinery/pkg/runtime"
)

// AppConfigValuesSource adds the keys of a ConfigMap or a Secret as variables.
// +kubebuilder:validation:XValidation:rule="has(self.configMapRef) != has(self.secretRef)",message="valuesFrom: set exactly one of configMapRef and secretRef"
type AppConfigValuesSource struct {
	// configMapRef refers to a ConfigMap.
	// +optional
	ConfigMapRef *AppConfigObjectRef `json:"configMapRef,omitempty"`
	// secretRef refers to a Secret. Keys whose templates use its values are published in a Secret.
	// +optional
	SecretRef *AppConfigObjectRef `json:"secretRef,omitempty"`
	// prefix is prepended to each key, for example "db_".
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]*$')",message="prefix: consists of letters, digits, '-', '_' and '.'"
	Prefix string `json:"prefix,omitempty"`
}

// AppConfigObjectRef refers to a ConfigMap or a Secret of the same namespace.
type AppConfigObjectRef struct {
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// optional renders the templates although the object does not exist. Defaults to false.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// AppConfigEnvironments are the overrides for each environment.
type AppConfigEnvironments struct {
	// dev applies in the environment dev.
	// +optional
	Dev *AppConfigOverrides `json:"dev,omitempty"`
	// staging applies in the environment staging.
	// +optional
	Staging *AppConfigOverrides `json:"staging,omitempty"`
	// prod applies in the environment prod.
	// +optional
	Prod *AppConfigOverrides `json:"prod,omitempty"`
}

// AppConfigOverrides override the fields of spec with the same names, key by key.
// +kubebuilder:validation:XValidation:rule="!has(self.config) || !has(self.files) || self.files.all(k, !(k in self.config))",message="files: a name may not be a key of config too, since both become keys of one ConfigMap"
type AppConfigOverrides struct {
	// values override spec.values and spec.valuesFrom.
	// +optional
	// +kubebuilder:validation:MaxProperties=500
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[-._a-zA-Z0-9]{1,253}$'))",message="values: each name consists of 1 to 253 letters, digits, '-', '_' and '.'"
	Values map[string]string `json:"values,omitempty"`
	// config overrides and extends spec.config.
	// +optional
	// +kubebuilder:validation:MaxProperties=500
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[-_a-zA-Z0-9]([-._a-zA-Z0-9]{0,252})$'))",message="config: each key consists of 1 to 253 letters, digits, '-', '_' and '.', and does not start with '.'"
	Config map[string]string `json:"config,omitempty"`
	// files override and extend spec.files.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[-_a-zA-Z0-9]([-._a-zA-Z0-9]{0,252})$'))",message="files: each name consists of 1 to 253 letters, digits, '-', '_' and '.', and does not start with '.'"
	Files map[string]string `json:"files,omitempty"`
}

// AppConfigSchema are the JSON Schemas of the rendered contents.
type AppConfigSchema struct {
	// config is the JSON Schema of all keys of spec.config together, as one object with string values.
	// +optional
	Config *JSONSchema `json:"config,omitempty"`
	// files is the JSON Schema of each file, by file name. The name ends in .json, .yaml or .yml.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.endsWith('.json') || k.endsWith('.yaml') || k.endsWith('.yml'))",message="files: only files that end in .json, .yaml or .yml can have a schema"
	Files map[string]JSONSchema `json:"files,omitempty"`
}

// JSONSchema is a JSON Schema, draft 2020-12.
// +kubebuilder:validation:Type=object
// +kubebuilder:pruning:PreserveUnknownFields
type JSONSchema struct {
	runtime.RawExtension `json:",inline"`
}
