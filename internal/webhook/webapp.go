package webhook

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/webhook/policy"
)

// +kubebuilder:webhook:path=/validate-apps-fettle-dev-v1-webapp,mutating=false,failurePolicy=fail,sideEffects=None,groups=apps.fettle.dev,resources=webapps,verbs=create;update,versions=v1,name=webapps.apps.fettle.dev,admissionReviewVersions=v1,timeoutSeconds=5

// webAppValidator holds WebApps to the policies of their namespace.
type webAppValidator struct {
	judge *judge
}

var _ admission.Validator[*appsv1.WebApp] = &webAppValidator{}

// ValidateCreate holds a new WebApp to the policies.
func (v *webAppValidator) ValidateCreate(ctx context.Context, app *appsv1.WebApp) (admission.Warnings, error) {
	kind := appsv1.GroupVersion.WithKind("WebApp").GroupKind()
	return v.judge.ask(ctx, kind, key(ctx, app), func(p *appsv1.WebAppPolicy, namespaceLabels map[string]string) ([]policy.Violation, error) {
		return policy.Check(p, app, namespaceLabels)
	})
}

// ValidateUpdate lets a WebApp stay that was there before the policy: it is held to it when its spec changes.
func (v *webAppValidator) ValidateUpdate(ctx context.Context, old, app *appsv1.WebApp) (admission.Warnings, error) {
	if app.DeletionTimestamp != nil || equality.Semantic.DeepEqual(old.Spec, app.Spec) {
		return nil, nil
	}
	return v.ValidateCreate(ctx, app)
}

// ValidateDelete is never asked for.
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
