package webhook

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
)

// +kubebuilder:webhook:path=/validate-apps-fettle-dev-v1-webapppolicy,mutating=false,failurePolicy=fail,sideEffects=None,groups=apps.fettle.dev,resources=webapppolicies,verbs=create;update,versions=v1,name=webapppolicies.apps.fettle.dev,admissionReviewVersions=v1,timeoutSeconds=5

// webAppPolicyValidator rejects selectors that are valid by their schema but can match nothing.
type webAppPolicyValidator struct{}

var _ admission.Validator[*appsv1.WebAppPolicy] = webAppPolicyValidator{}

// ValidateCreate checks spec.namespaceSelector.
func (webAppPolicyValidator) ValidateCreate(_ context.Context, p *appsv1.WebAppPolicy) (admission.Warnings, error) {
	errs := metav1validation.ValidateLabelSelector(&p.Spec.NamespaceSelector,
		metav1validation.LabelSelectorValidationOptions{}, field.NewPath("spec", "namespaceSelector"))
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(appsv1.GroupVersion.WithKind("WebAppPolicy").GroupKind(), p.Name, errs)
	}
	return nil, nil
}

// ValidateUpdate checks a spec that changed.
func (v webAppPolicyValidator) ValidateUpdate(ctx context.Context, old, p *appsv1.WebAppPolicy) (admission.Warnings, error) {
	if p.DeletionTimestamp != nil || equality.Semantic.DeepEqual(old.Spec, p.Spec) {
		return nil, nil
	}
	return v.ValidateCreate(ctx, p)
}

// ValidateDelete is never called.
func (webAppPolicyValidator) ValidateDelete(context.Context, *appsv1.WebAppPolicy) (admission.Warnings, error) {
	return nil, nil
}
