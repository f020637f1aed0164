package webhook

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/schedule"
)

// The condition Accepted says the same of a Backup that is created while no webhook is served.
// +kubebuilder:webhook:path=/validate-backup-fettle-dev-v1alpha1-backup,mutating=false,failurePolicy=ignore,sideEffects=None,groups=backup.fettle.dev,resources=backups,verbs=create;update,versions=v1alpha1,name=backups.backup.fettle.dev,admissionReviewVersions=v1,timeoutSeconds=5

// backupValidator rejects schedules that the schema cannot check: values out of range, time zones, and too short intervals.
type backupValidator struct{}

var _ admission.Validator[*backupv1alpha1.Backup] = backupValidator{}

// ValidateCreate checks the schedule.
func (backupValidator) ValidateCreate(_ context.Context, b *backupv1alpha1.Backup) (admission.Warnings, error) {
	errs := scheduleErrors(field.NewPath("spec"), b.Spec.Schedule, b.Spec.TimeZone)
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(backupv1alpha1.GroupVersion.WithKind("Backup").GroupKind(), b.Name, errs)
	}
	return nil, nil
}

// ValidateUpdate checks a schedule that changed.
func (v backupValidator) ValidateUpdate(ctx context.Context, old, b *backupv1alpha1.Backup) (admission.Warnings, error) {
	if b.DeletionTimestamp != nil || old.Spec.Schedule == b.Spec.Schedule && old.Spec.TimeZone == b.Spec.TimeZone {
		return nil, nil
	}
	return v.ValidateCreate(ctx, b)
}

// ValidateDelete is never called.
func (backupValidator) ValidateDelete(context.Context, *backupv1alpha1.Backup) (admission.Warnings, error) {
	return nil, nil
}

func scheduleErrors(path *field.Path, expression, timeZone string) field.ErrorList {
	if expression == "" {
		return nil
	}
	if _, err := schedule.Parse(expression, timeZone); err != nil {
		return field.ErrorList{field.Invalid(path.Child("schedule"), expression, err.Error())}
	}
	return nil
}

// backupErrors are about the schedule of a PostgreSQL's base backups.
func backupErrors(pg *databasev1alpha1.PostgreSQL) field.ErrorList {
	if pg.Spec.Backup == nil {
		return nil
	}
	return scheduleErrors(field.NewPath("spec", "backup"), pg.Spec.Backup.Schedule, "")
}
