package v1

// LocalReference refers to an object of the same namespace.
// +kubebuilder:object:generate=true
type LocalReference struct {
	// name of the object, in the namespace of the object that refers to it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}
