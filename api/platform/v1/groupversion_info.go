// Package v1 is the API of application platforms: AppStack and EcommercePlatform.
// +kubebuilder:object:generate=true
// +groupName=platform.fettle.dev
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the group and version of the kinds of this package.
	GroupVersion = schema.GroupVersion{Group: "platform.fettle.dev", Version: "v1"}

	schemeBuilder = runtime.NewSchemeBuilder(func(s *runtime.Scheme) error {
		s.AddKnownTypes(GroupVersion, &AppStack{}, &AppStackList{}, &EcommercePlatform{}, &EcommercePlatformList{})
		metav1.AddToGroupVersion(s, GroupVersion)
		return nil
	})

	// AddToScheme adds the kinds of this package to a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)
