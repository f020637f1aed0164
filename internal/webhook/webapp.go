package webhook

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/podtemplate"
	"github.com/fettle-dev/fettle/internal/policy"
)

// +kubebuilder:webhook:path=/validate-apps-fettle-dev-v1-webapp,mutating=false,failurePolicy=fail,sideEffects=None,groups=apps.fettle.dev,resources=webapps,verbs=create;update,versions=v1,name=webapps.apps.fettle.dev,admissionReviewVersions=v1,timeoutSeconds=5

// webAppValidator checks WebApps against their security profile and the policies of their namespace.
type webAppValidator struct {
	evaluator *evaluator
}

var _ admission.Validator[*appsv1.WebApp] = &webAppValidator{}

// ValidateCreate checks a new WebApp against its security profile and the policies.
func (v *webAppValidator) ValidateCreate(ctx context.Context, app *appsv1.WebApp) (admission.Warnings, error) {
	return v.validate(ctx, nil, app)
}

// ValidateUpdate rejects only violations that the update introduces or makes worse. A WebApp that is older than a policy can be
// paused, scaled down and corrected step by step.
func (v *webAppValidator) ValidateUpdate(ctx context.Context, old, app *appsv1.WebApp) (admission.Warnings, error) {
	if app.DeletionTimestamp != nil || equality.Semantic.DeepEqual(old.Spec, app.Spec) {
		return nil, nil
	}
	return v.validate(ctx, old, app)
}

// validate compares with old, which is nil for a new WebApp.
func (v *webAppValidator) validate(ctx context.Context, old, app *appsv1.WebApp) (admission.Warnings, error) {
	key := key(ctx, app)
	introduced := func(check func(*appsv1.WebApp) ([]policy.Violation, error)) ([]policy.Violation, error) {
		is, err := check(app)
		if err != nil || old == nil {
			return is, err
		}
		was, err := check(old)
		return policy.New(was, is), err
	}
	var rejected field.ErrorList
	if app.Spec.SecurityContext != nil || app.Spec.PodSecurityContext != nil || podtemplate.IsSet(app.Spec.PodTemplate) {
		namespace, err := v.evaluator.namespaceLabels(ctx, key.Namespace)
		if err != nil {
			return nil, err
		}
		violations, err := introduced(func(a *appsv1.WebApp) ([]policy.Violation, error) {
			violations, err := policy.CheckProfile(a, namespace)
			if err != nil {
				return nil, err
			}
			more, err := policy.CheckPodTemplate(a, namespace)
			return append(violations, more...), err
		})
		if err != nil {
			return nil, err
		}
		for _, violation := range violations {
			rejected = append(rejected, violation.Error)
		}
	}
	kind := appsv1.GroupVersion.WithKind("WebApp").GroupKind()
	return v.evaluator.evaluate(ctx, kind, key, rejected, func(p *appsv1.WebAppPolicy, namespace map[string]string) ([]policy.Violation, error) {
		return introduced(func(a *appsv1.WebApp) ([]policy.Violation, error) { return policy.Check(p, a, namespace) })
	})
}

// ValidateDelete is never called.
func (v *webAppValidator) ValidateDelete(context.Context, *appsv1.WebApp) (admission.Warnings, error) {
	return nil, nil
}

// key takes the namespace from the request, since that of a new object may be empty.
func key(ctx context.Context, obj client.Object) client.ObjectKey {
	k := client.ObjectKeyFromObject(obj)
	if request, err := admission.RequestFromContext(ctx); err == nil {
		k.Namespace = request.Namespace
	}
	return k
}
