package ecommerceplatform

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/reconciler"
)

const ownerKind = "EcommercePlatform"

// appStack is the desired AppStack of p. It has the labels and annotations that its own children inherit from it.
func appStack(p *platformv1.EcommercePlatform, spec *platformv1.AppStackSpec) runtime.ApplyConfiguration {
	labels := maps.Clone(spec.InheritedMetadata.Labels)
	maps.Copy(labels, reconciler.Labels(ownerKind, p.Name, "ecommerceplatform"))
	u := &unstructured.Unstructured{Object: map[string]any{"spec": *apply.Convert[map[string]any](spec)}}
	u.SetGroupVersionKind(platformv1.GroupVersion.WithKind("AppStack"))
	u.SetNamespace(p.Namespace)
	u.SetName(p.Name)
	u.SetLabels(labels)
	u.SetAnnotations(spec.InheritedMetadata.Annotations)
	return client.ApplyConfigurationFromUnstructured(u)
}
