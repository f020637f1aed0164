// Package podtemplate merges spec.podTemplate of a WebApp or PostgreSQL onto the pod template that Fettle generates.
//
// The field has no schema in the CRD. [Validate] decodes it strictly and protects what Fettle relies on; [Merge] is a strategic merge
// patch, as of kubectl patch. Both are pure. The webhooks and the controllers use them.
package podtemplate

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/fettle-dev/fettle/internal/apply"
)

// IsSet reports whether the overlay sets anything.
func IsSet(overlay *runtime.RawExtension) bool {
	return overlay != nil && len(overlay.Raw) > 0 && string(overlay.Raw) != "null"
}

// Merge returns generated with the overlay. Containers that the overlay adds get the security context added, which their own overrides.
// A probe of the overlay replaces the generated one, because a merge would leave two handlers. Generated list items come first, in their
// order. Merge returns an error for an overlay that [Validate] rejects.
func Merge(
	generated *corev1ac.PodTemplateSpecApplyConfiguration, overlay *runtime.RawExtension, added *corev1ac.SecurityContextApplyConfiguration,
) (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	patch, err := decode(overlay)
	if err != nil {
		return nil, err
	}
	base := *apply.Convert[map[string]any](generated)
	for _, list := range containerLists {
		mergeContainers(items(base, "spec", list), items(patch, "spec", list), added)
	}
	out, err := strategicpatch.StrategicMergeMapPatch(base, patch, corev1.PodTemplateSpec{})
	if err != nil {
		return nil, fmt.Errorf("merge: %w", err)
	}
	merged := apply.Convert[corev1ac.PodTemplateSpecApplyConfiguration](out)
	inGeneratedOrder(generated, merged)
	setDefaults(merged)
	return merged, nil
}

// Canonical returns what the overlay sets, without nulls; nil if it sets nothing. Its JSON form does not depend on the order of fields.
func Canonical(overlay *runtime.RawExtension) map[string]any {
	if !IsSet(overlay) {
		return nil
	}
	doc, err := decode(overlay)
	if err != nil {
		return nil // the API server accepts no such object
	}
	return doc
}

// containerLists are the fields of a pod spec with containers.
var containerLists = []string{"initContainers", "containers"}

// decode returns the overlay as a document. A null counts as not set: in a merge patch it would delete what Fettle generates.
func decode(overlay *runtime.RawExtension) (map[string]any, error) {
	doc := map[string]any{}
	if err := utiljson.Unmarshal(overlay.Raw, &doc); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	dropNulls(doc)
	return doc, nil
}

func dropNulls(doc any) {
	switch v := doc.(type) {
	case []any:
		for _, item := range v {
			dropNulls(item)
		}
	case map[string]any:
		for key, below := range v {
			if below == nil {
				delete(v, key)
			}
			dropNulls(below)
		}
	}
}

// mergeContainers prepares the merge of containers: it removes generated probes that the patch replaces, and gives added containers a
// security context.
func mergeContainers(base, patch []map[string]any, added *corev1ac.SecurityContextApplyConfiguration) {
	for _, container := range patch {
		i := slices.IndexFunc(base, func(c map[string]any) bool { return c["name"] == container["name"] })
		if i < 0 {
			if added != nil {
				context := apply.Convert[corev1ac.SecurityContextApplyConfiguration](added)
				apply.MergeInto(context, container["securityContext"])
				container["securityContext"] = *apply.Convert[map[string]any](context)
			}
			continue
		}
		for _, probe := range []string{"startupProbe", "readinessProbe", "livenessProbe"} {
			if container[probe] != nil {
				delete(base[i], probe)
			}
		}
	}
}

// items are the objects of a list in a document.
func items(doc map[string]any, fields ...string) []map[string]any {
	var at any = doc
	for _, field := range fields {
		below, _ := at.(map[string]any)
		at = below[field]
	}
	list, _ := at.([]any)
	var out []map[string]any
	for _, item := range list {
		if object, ok := item.(map[string]any); ok {
			out = append(out, object)
		}
	}
	return out
}

// inGeneratedOrder sorts generated containers and variables before added ones: a merge puts the added ones first. The first container is
// the default of kubectl logs, and a variable can use only those before it.
func inGeneratedOrder(generated, merged *corev1ac.PodTemplateSpecApplyConfiguration) {
	name := func(c corev1ac.ContainerApplyConfiguration) string { return *c.Name }
	firstAs(merged.Spec.Containers, generated.Spec.Containers, name)
	firstAs(merged.Spec.InitContainers, generated.Spec.InitContainers, name)
	for i := range generated.Spec.Containers {
		firstAs(merged.Spec.Containers[i].Env, generated.Spec.Containers[i].Env,
			func(e corev1ac.EnvVarApplyConfiguration) string { return *e.Name })
	}
}

// firstAs sorts list so that the items of first come first, in their order.
func firstAs[T any](list, first []T, name func(T) string) {
	rank := func(item T) int {
		if i := slices.IndexFunc(first, func(f T) bool { return name(f) == name(item) }); i >= 0 {
			return i
		}
		return len(first)
	}
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(rank(a), rank(b)) })
}
