package cmd

import (
	"fmt"

	k8sappsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ownLabels are on every child that Fettle makes, and on their pods.
var ownLabels = labels.Set{"app.kubernetes.io/managed-by": "fettle"}

// cacheOptions bound what is watched and kept in memory: of the kinds of children those that Fettle made, of Secrets,
// ConfigMaps, namespaces and CRDs the metadata. No namespaces means all.
func cacheOptions(namespaces []string) (cache.Options, error) {
	own := cache.ByObject{Label: ownLabels.AsSelector()}
	namespace := &corev1.Namespace{}
	options := cache.Options{
		DefaultTransform: trimBookkeeping,
		ByObject: map[client.Object]cache.ByObject{
			&k8sappsv1.Deployment{}:                     own,
			&k8sappsv1.ControllerRevision{}:             own,
			&corev1.Service{}:                           own,
			&networkingv1.Ingress{}:                     own,
			&networkingv1.NetworkPolicy{}:               own,
			&autoscalingv2.HorizontalPodAutoscaler{}:    own,
			&policyv1.PodDisruptionBudget{}:             own,
			&corev1.Pod{}:                               {Label: own.Label, Transform: trimPod},
			&corev1.Secret{}:                            {Transform: trimIdentity},
			&corev1.ConfigMap{}:                         {Transform: trimIdentity},
			namespace:                                   {Transform: trimToLabels},
			&apiextensionsv1.CustomResourceDefinition{}: {Transform: trimIdentity},
		},
	}
	if len(namespaces) == 0 {
		return options, nil
	}
	selector, err := named(namespaces)
	if err != nil {
		return cache.Options{}, err
	}
	options.ByObject[namespace] = cache.ByObject{Label: selector, Transform: trimToLabels}
	options.DefaultNamespaces = map[string]cache.Config{}
	for _, name := range namespaces {
		options.DefaultNamespaces[name] = cache.Config{}
	}
	return options, nil
}

// named selects namespaces by the label with its name that each has.
func named(namespaces []string) (labels.Selector, error) {
	in, err := labels.NewRequirement(corev1.LabelMetadataName, selection.In, namespaces)
	if err != nil {
		return nil, fmt.Errorf("--watch-namespaces: %w", err)
	}
	return labels.NewSelector().Add(*in), nil
}
