package cache

import (
	"fmt"
	"maps"

	k8sappsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ownLabels are on every child of Fettle, and on the children's pods.
var ownLabels = labels.Set{"app.kubernetes.io/managed-by": "fettle"}

// childKinds are the kinds of which only Fettle's own objects are watched.
var childKinds = []client.Object{
	&k8sappsv1.Deployment{}, &k8sappsv1.StatefulSet{}, &k8sappsv1.ControllerRevision{},
	&corev1.Service{}, &corev1.ServiceAccount{}, &corev1.PersistentVolumeClaim{},
	&rbacv1.Role{}, &rbacv1.RoleBinding{}, &coordinationv1.Lease{}, &batchv1.Job{}, &batchv1.CronJob{},
	&networkingv1.Ingress{}, &networkingv1.NetworkPolicy{},
	&autoscalingv2.HorizontalPodAutoscaler{}, &policyv1.PodDisruptionBudget{},
}

// Options limits what is watched and kept in memory. Of childKinds the cache holds Fettle's own objects. It holds only the metadata of
// namespaces, CRDs, IngressClasses and foreign Secrets and ConfigMaps. Of all HorizontalPodAutoscalers, in version v1, it holds the scale
// target. No namespaces means all.
func Options(namespaces []string) (cache.Options, error) {
	own := cache.ByObject{Label: ownLabels.AsSelector()}
	namespace := &corev1.Namespace{}
	options := cache.Options{
		DefaultTransform: trimBookkeeping,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:       {Label: own.Label, Transform: trimPod},
			&corev1.Secret{}:    {Transform: trimIdentity},
			&corev1.ConfigMap{}: {Transform: trimIdentity},
			namespace:           {Transform: trimToLabels},
			&apiextensionsv1.CustomResourceDefinition{}: {Transform: trimIdentity},
			&networkingv1.IngressClass{}:                {Transform: trimIdentity},
			// In version v2 they are children: each version has its own watch.
			&autoscalingv1.HorizontalPodAutoscaler{}: {Transform: trimAutoscaler},
		},
	}
	for _, kind := range childKinds {
		options.ByObject[kind] = own
	}
	if len(namespaces) == 0 {
		return options, nil
	}
	selector, err := namespaceSelector(namespaces)
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

// contentsOptions are the options of the cache of Fettle's own Secrets and ConfigMaps, beside a cache with the options main.
func contentsOptions(main cache.Options) cache.Options {
	own := cache.ByObject{Label: ownLabels.AsSelector()}
	contents := main
	own.Transform = trimToEdits
	contents.ByObject = map[client.Object]cache.ByObject{&corev1.Secret{}: own, &corev1.ConfigMap{}: own}
	contents.DefaultNamespaces = maps.Clone(main.DefaultNamespaces)
	return contents
}

// namespaceSelector selects namespaces by the label with the namespace's name.
func namespaceSelector(namespaces []string) (labels.Selector, error) {
	in, err := labels.NewRequirement(corev1.LabelMetadataName, selection.In, namespaces)
	if err != nil {
		return nil, fmt.Errorf("--watch-namespaces: %w", err)
	}
	return labels.NewSelector().Add(*in), nil
}
