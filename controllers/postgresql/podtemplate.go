package postgresql

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/podsecurity"
	"github.com/fettle-dev/fettle/internal/podtemplate"
	podpolicy "github.com/fettle-dev/fettle/internal/policy"
)

// overlaid is the generated pod template with spec.inheritedMetadata and spec.podTemplate. A podTemplate that can't be merged is left out: the StatefulSet is not applied
// then, see rejectedPodTemplate.
func overlaid(pg *databasev1alpha1.PostgreSQL, generated *corev1ac.PodTemplateSpecApplyConfiguration) *corev1ac.PodTemplateSpecApplyConfiguration {
	if in := pg.Inherited(); in != nil {
		generated.Labels, generated.Annotations = fettlev1.Inherit(generated.Labels, in.Labels), fettlev1.Inherit(generated.Annotations, in.Annotations)
	}
	if !podtemplate.IsSet(pg.Spec.PodTemplate) {
		return generated
	}
	_, added := podsecurity.Profile(appsv1.ProfileRestricted)
	merged, err := podtemplate.Merge(generated, pg.Spec.PodTemplate, added.WithRunAsNonRoot(true))
	if err != nil {
		return generated
	}
	return merged
}

// inherit adds spec.inheritedMetadata to an object that the applier does not write. Labels and annotations that are no longer inherited
// stay on it.
func inherit(pg *databasev1alpha1.PostgreSQL, to metav1.Object) {
	if in := pg.Inherited(); in != nil {
		to.SetLabels(fettlev1.Inherit(to.GetLabels(), in.Labels))
		to.SetAnnotations(fettlev1.Inherit(to.GetAnnotations(), in.Annotations))
	}
}

// inherits reports whether an object has all of spec.inheritedMetadata.
func inherits(pg *databasev1alpha1.PostgreSQL, object metav1.Object) bool {
	in := pg.Inherited()
	return in == nil || containsAll(object.GetLabels(), in.Labels) && containsAll(object.GetAnnotations(), in.Annotations)
}

func containsAll(have, want map[string]string) bool {
	for key, value := range want {
		if got, ok := have[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// rejectedPodTemplate is the reason why spec.podTemplate can't be used; nil if it can. The webhook rejects it too, but may be off.
func rejectedPodTemplate(pg *databasev1alpha1.PostgreSQL) error {
	errs, err := podpolicy.CheckDatabasePodTemplate(pg)
	if err != nil || len(errs) == 0 {
		return err
	}
	return apierrors.NewInvalid(databasev1alpha1.GroupVersion.WithKind(ownerKind).GroupKind(), pg.Name, errs)
}
