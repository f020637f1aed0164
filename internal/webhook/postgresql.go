package webhook

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/policy"
)

// +kubebuilder:webhook:path=/validate-database-fettle-dev-v1alpha1-postgresql,mutating=false,failurePolicy=fail,sideEffects=None,groups=database.fettle.dev,resources=postgresqls,verbs=create;update,versions=v1alpha1,name=postgresqls.database.fettle.dev,admissionReviewVersions=v1,timeoutSeconds=5

// postgreSQLValidator refuses what PostgreSQL would refuse, or would not be safe, and what the schema can't hold: parameters,
// names that SQL takes only in quotes, memberships in roles that nobody makes, copies of itself, and annotations that name no
// instance.
type postgreSQLValidator struct{ evaluator *evaluator }

var _ admission.Validator[*databasev1alpha1.PostgreSQL] = &postgreSQLValidator{}

// ValidateCreate checks all.
func (v *postgreSQLValidator) ValidateCreate(ctx context.Context, pg *databasev1alpha1.PostgreSQL) (admission.Warnings, error) {
	major, err := majorOf(pg)
	if err != nil {
		return nil, err
	}
	errs, err := policy.CheckDatabasePodTemplate(pg)
	if err != nil {
		return nil, err
	}
	return v.evaluate(ctx, nil, pg, slices.Concat(errs, parameterErrors(major, pg), nameErrors(pg), memberErrors(major, pg), copyErrors(pg), backupErrors(pg), annotationErrors(pg, nil)))
}

// ValidateUpdate lets one stay that was there before: parameters are checked when they change, or what they are checked against
// does, an annotation when its value does, and the rest for what is new.
func (v *postgreSQLValidator) ValidateUpdate(ctx context.Context, old, pg *databasev1alpha1.PostgreSQL) (admission.Warnings, error) {
	if pg.DeletionTimestamp != nil {
		return nil, nil
	}
	major, err := majorOf(pg)
	if err != nil {
		return nil, err
	}
	errs := annotationErrors(pg, old.Annotations)
	if old.Spec.Version != pg.Spec.Version || !equality.Semantic.DeepEqual(old.Spec.Parameters, pg.Spec.Parameters) ||
		(old.Spec.Synchronous == nil) != (pg.Spec.Synchronous == nil) {
		errs = append(errs, parameterErrors(major, pg)...)
	}
	if !equality.Semantic.DeepEqual(old.Spec.PodTemplate, pg.Spec.PodTemplate) {
		rejected, err := policy.CheckDatabasePodTemplate(pg)
		if err != nil {
			return nil, err
		}
		errs = append(errs, rejected...)
	}
	was, _ := majorOf(old)
	before := slices.Concat(nameErrors(old), memberErrors(was, old), backupErrors(old))
	for _, e := range slices.Concat(nameErrors(pg), memberErrors(major, pg), backupErrors(pg)) {
		if !slices.ContainsFunc(before, func(b *field.Error) bool { return b.BadValue == e.BadValue && b.Detail == e.Detail }) {
			errs = append(errs, e)
		}
	}
	return v.evaluate(ctx, old, pg, errs)
}

// evaluate holds the images to the policies of the namespace, unless an update leaves them as they were.
func (v *postgreSQLValidator) evaluate(ctx context.Context, old, pg *databasev1alpha1.PostgreSQL, refused field.ErrorList) (admission.Warnings, error) {
	kind, path := databasev1alpha1.GroupVersion.WithKind("PostgreSQL").GroupKind(), field.NewPath("spec", "image")
	return v.evaluator.evaluate(ctx, kind, key(ctx, pg), refused, func(p *appsv1.WebAppPolicy, _ map[string]string) ([]policy.Violation, error) {
		var violations []policy.Violation
		if old == nil || old.Spec.EffectiveImage() != pg.Spec.EffectiveImage() {
			violations = policy.CheckRegistry(p, path, pg.Spec.EffectiveImage())
		}
		if old == nil || !equality.Semantic.DeepEqual(old.Spec.PodTemplate, pg.Spec.PodTemplate) {
			violations = append(violations, policy.CheckDatabaseImages(p, pg)...)
		}
		return violations, nil
	})
}

// ValidateDelete is never asked for.
func (*postgreSQLValidator) ValidateDelete(context.Context, *databasev1alpha1.PostgreSQL) (admission.Warnings, error) {
	return nil, nil
}

func majorOf(pg *databasev1alpha1.PostgreSQL) (int, error) {
	first, _, _ := strings.Cut(pg.Spec.Version, ".")
	major, err := strconv.Atoi(first)
	if err != nil {
		return 0, fmt.Errorf("spec.version: %q is no version", pg.Spec.Version)
	}
	return major, nil
}
