package webhook

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/pki"
)

// +kubebuilder:webhook:path=/validate-database-fettle-dev-v1alpha1-postgresql,mutating=false,failurePolicy=fail,sideEffects=None,groups=database.fettle.dev,resources=postgresqls,verbs=create;update,versions=v1alpha1,name=postgresqls.database.fettle.dev,admissionReviewVersions=v1,timeoutSeconds=5

// postgreSQLValidator refuses parameters that PostgreSQL does not know, or that would not be safe, and copies of itself. The schema
// holds their form alone.
type postgreSQLValidator struct{}

var _ admission.Validator[*databasev1alpha1.PostgreSQL] = &postgreSQLValidator{}

// ValidateCreate checks the parameters against the version, and that the server to copy is another one: the schema knows no namespace.
func (*postgreSQLValidator) ValidateCreate(_ context.Context, pg *databasev1alpha1.PostgreSQL) (admission.Warnings, error) {
	first, _, _ := strings.Cut(pg.Spec.Version, ".")
	major, err := strconv.Atoi(first)
	if err != nil {
		return nil, fmt.Errorf("spec.version: %q is no version", pg.Spec.Version)
	}
	parameters := make(map[string]string, len(pg.Spec.Parameters))
	for name, value := range pg.Spec.Parameters {
		parameters[name] = string(value)
	}
	var wrong field.ErrorList
	if err := config.CheckParameters(major, parameters); err != nil {
		wrong = append(wrong, field.Forbidden(field.NewPath("spec", "parameters"), err.Error()))
	}
	if from := pg.Spec.Bootstrap.PgBasebackup; from != nil && pki.IsHost(pg.Name, pg.Namespace, from.Host) {
		wrong = append(wrong, field.Invalid(field.NewPath("spec", "bootstrap", "pgBasebackup", "host"), from.Host,
			"is this PostgreSQL itself: name the server that is to be copied"))
	}
	if len(wrong) > 0 {
		return nil, apierrors.NewInvalid(databasev1alpha1.GroupVersion.WithKind("PostgreSQL").GroupKind(), pg.Name, wrong)
	}
	return nil, nil
}

// ValidateUpdate lets one stay that was there before: it is checked when its parameters or version change.
func (v *postgreSQLValidator) ValidateUpdate(ctx context.Context, old, pg *databasev1alpha1.PostgreSQL) (admission.Warnings, error) {
	if pg.DeletionTimestamp != nil ||
		old.Spec.Version == pg.Spec.Version && equality.Semantic.DeepEqual(old.Spec.Parameters, pg.Spec.Parameters) {
		return nil, nil
	}
	return v.ValidateCreate(ctx, pg)
}

// ValidateDelete is never asked for.
func (*postgreSQLValidator) ValidateDelete(context.Context, *databasev1alpha1.PostgreSQL) (admission.Warnings, error) {
	return nil, nil
}
