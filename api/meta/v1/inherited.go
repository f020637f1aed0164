package v1

import "maps"

// InheritedMetadata are labels and annotations that all child objects and their pods get.
// +kubebuilder:object:generate=true
type InheritedMetadata struct {
	// labels of the child objects and pods, for example app.kubernetes.io/part-of. Labels that Fettle sets are rejected.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	// +kubebuilder:validation:XValidation:rule="self.all(k, !(k in ['app', 'app.kubernetes.io/name', 'app.kubernetes.io/instance', 'app.kubernetes.io/component', 'app.kubernetes.io/managed-by']) && !k.startsWith('fettle.dev/') && !k.contains('.fettle.dev/'))",message="labels: Fettle sets app, app.kubernetes.io/name, instance, component and managed-by, and labels of fettle.dev; choose others"
	Labels map[string]string `json:"labels,omitempty"`
	// annotations of the child objects and pods. Annotations of fettle.dev are rejected.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('fettle.dev/') && !k.contains('.fettle.dev/') && !k.endsWith('-snippet') && !k.endsWith('-snippets'))",message="annotations: those of fettle.dev are reserved, and snippets inject configuration into the ingress controller; remove them"
	Annotations map[string]string `json:"annotations,omitempty"`
}

// OrNil returns nil if nothing is inherited.
func (m *InheritedMetadata) OrNil() *InheritedMetadata {
	if m == nil || len(m.Labels)+len(m.Annotations) == 0 {
		return nil
	}
	return m
}

// Inherit returns own with the inherited entries that own does not have.
func Inherit(own, inherited map[string]string) map[string]string {
	if len(inherited) == 0 {
		return own
	}
	all := maps.Clone(inherited)
	maps.Copy(all, own)
	return all
}
