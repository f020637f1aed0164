package v1

// LocalReference refers to an object of the same namespace.
// +kubebuilder:object:generate=true
type LocalReference struct {
	// name of the object, in the namespace of the object that refers to it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="name: must be the name of an object: lower-case letters, digits, '-' and '.'"
	Name string `json:"name"`
}

// SecretKeyReference names a value in a Secret of the same namespace.
// +kubebuilder:object:generate=true
type SecretKeyReference struct {
	// name of the Secret, in the namespace of the object that refers to it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="name: must be the name of a Secret, such as old-server"
	Name string `json:"name"`
	// key of the value in the Secret. Each field that has such a reference documents its default.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-A-Za-z0-9_.]*[-A-Za-z0-9_]$')",message="key: must be a key of a Secret: letters, digits, '-', '_' and '.'"
	Key string `json:"key,omitempty"`
}

// KeyOr returns the key, or usual where none is given.
func (r *SecretKeyReference) KeyOr(usual string) string {
	if r.Key == "" {
		return usual
	}
	return r.Key
}
