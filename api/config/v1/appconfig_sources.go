package v1

import (
	"k8s.io/apimachinery/pkg/runtime"
)

// AppConfigValuesSource takes the keys of a ConfigMap or a Secret as variables.
// +kubebuilder:validation:XValidation:rule="has(self.configMapRef) != has(self.secretRef)",message="valuesFrom: set exactly one of configMapRef and secretRef"
type AppConfigValuesSource struct {
	// configMapRef names a ConfigMap.
	// +optional
	ConfigMapRef *AppConfigObjectRef `json:"configMapRef,omitempty"`
	// secretRef names a Secret. What a template takes from it is published in a Secret.
	// +optional
	SecretRef *AppConfigObjectRef `json:"secretRef,omitempty"`
	// prefix is put before each key, for example "db_".
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]*$')",message="prefix: consists of letters, digits, '-', '_' and '.'"
	Prefix string `json:"prefix,omitempty"`
}

// AppConfigObjectRef names a ConfigMap or a Secret of the same namespace.
type AppConfigObjectRef struct {
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// optional does not wait for the object when it is missing.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// AppConfigEnvironments has the overrides of each environment.
type AppConfigEnvironments struct {
	// dev overrides in the environment dev.
	// +optional
	Dev *AppConfigOverrides `json:"dev,omitempty"`
	// staging overrides in the environment staging.
	// +optional
	Staging *AppConfigOverrides `json:"staging,omitempty"`
	// prod overrides in the environment prod.
	// +optional
	Prod *AppConfigOverrides `json:"prod,omitempty"`
}

// AppConfigOverrides win, key by key, over the fields of the same name in spec.
// +kubebuilder:validation:XValidation:rule="!has(self.config) || !has(self.files) || self.files.all(k, !(k in self.config))",message="files: a name may not be a key of config too, since both become keys of one ConfigMap"
type AppConfigOverrides struct {
	// values win over those of spec.values and spec.valuesFrom.
	// +optional
	// +kubebuilder:validation:MaxProperties=500
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[-._a-zA-Z0-9]{1,253}$'))",message="values: each name consists of 1 to 253 letters, digits, '-', '_' and '.'"
	Values map[string]string `json:"values,omitempty"`
	// config adds to and wins over spec.config.
	// +optional
	// +kubebuilder:validation:MaxProperties=500
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[-_a-zA-Z0-9]([-._a-zA-Z0-9]{0,252})$'))",message="config: each key consists of 1 to 253 letters, digits, '-', '_' and '.', and does not start with '.'"
	Config map[string]string `json:"config,omitempty"`
	// files adds to and wins over spec.files.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[-_a-zA-Z0-9]([-._a-zA-Z0-9]{0,252})$'))",message="files: each name consists of 1 to 253 letters, digits, '-', '_' and '.', and does not start with '.'"
	Files map[string]string `json:"files,omitempty"`
}

// AppConfigSchema are the JSON Schemas of what is rendered.
type AppConfigSchema struct {
	// config is the JSON Schema of all keys of spec.config together, as one object whose values are strings.
	// +optional
	Config *JSONSchema `json:"config,omitempty"`
	// files has the JSON Schema of the contents of files, by the file's name, which ends in .json, .yaml or .yml.
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
