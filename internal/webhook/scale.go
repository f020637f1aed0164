package webhook

import (
	"context"
	"errors"
	"net/http"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/policy"
)

// +kubebuilder:webhook:path=/validate-apps-fettle-dev-v1-webapp-scale,mutating=false,failurePolicy=fail,sideEffects=None,groups=apps.fettle.dev,resources=webapps/scale,verbs=update,versions=v1,name=webapps-scale.apps.fettle.dev,admissionReviewVersions=v1,timeoutSeconds=5

const scalePath = "/validate-apps-fettle-dev-v1-webapp-scale"

// scaleHandler enforces maxReplicas for `kubectl scale` and autoscalers, which write a Scale instead of a WebApp.
type scaleHandler struct {
	evaluator *evaluator
	decoder   admission.Decoder
}

func newScaleHandler(scheme *runtime.Scheme, evaluator *evaluator) *scaleHandler {
	return &scaleHandler{evaluator: evaluator, decoder: admission.NewDecoder(scheme)}
}

// Handle implements admission.Handler.
func (h *scaleHandler) Handle(ctx context.Context, request admission.Request) admission.Response {
	scale, old := &autoscalingv1.Scale{}, &autoscalingv1.Scale{}
	if err := h.decoder.DecodeRaw(request.Object, scale); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if err := h.decoder.DecodeRaw(request.OldObject, old); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if scale.DeletionTimestamp != nil || scale.Spec.Replicas == old.Spec.Replicas {
		return admission.Allowed("")
	}
	kind := appsv1.GroupVersion.WithKind("WebApp").GroupKind()
	path := field.NewPath("spec", "replicas")
	warnings, err := h.evaluator.evaluate(ctx, kind, key(ctx, scale), nil, func(p *appsv1.WebAppPolicy, _ map[string]string) ([]policy.Violation, error) {
		return policy.New(policy.CheckReplicas(p, path, old.Spec.Replicas), policy.CheckReplicas(p, path, scale.Spec.Replicas)), nil
	})
	return answer(warnings, err)
}

// answer rejects with the API server's own form of an error, if err has one.
func answer(warnings admission.Warnings, err error) admission.Response {
	if err == nil {
		return admission.Allowed("").WithWarnings(warnings...)
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return admission.Errored(http.StatusInternalServerError, err).WithWarnings(warnings...)
	}
	response := admission.Denied("").WithWarnings(warnings...)
	response.Result = new(status.Status())
	return response
}
