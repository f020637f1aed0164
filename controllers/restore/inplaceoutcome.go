package restore

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

// outcome is what became of a restore in place so far.
type outcome struct {
	phase           backupv1alpha1.RunPhase
	reason, message string
}

// permanent are the reasons of the first instance that waiting does not change. An object store that does not answer may come back.
var permanent = []string{
	databasev1alpha1.ReasonTargetTooEarly, databasev1alpha1.ReasonTargetNotReached, databasev1alpha1.ReasonWALMissing,
	databasev1alpha1.ReasonRecoveryFailed, databasev1alpha1.ReasonSourceTooLarge,
	backupv1alpha1.ReasonBackupDamaged, backupv1alpha1.ReasonBackupUnsuitable, backupv1alpha1.ReasonNoBackup, backupv1alpha1.ReasonBackupMissing,
	backupv1alpha1.ReasonKeyMissing, backupv1alpha1.ReasonStoreForbidden, backupv1alpha1.ReasonStoreInvalid, backupv1alpha1.ReasonBucketMissing,
}

// judgeInPlace says what became of a restore to these volumes, by the status of the PostgreSQL. What it says of other volumes does not
// count.
func judgeInPlace(pg *databasev1alpha1.PostgreSQL, volumes int, elapsed, timeout time.Duration) outcome {
	present := int(pg.Status.Volumes) == volumes
	primary := meta.FindStatusCondition(pg.Status.Conditions, databasev1alpha1.PostgreSQLPrimaryReady)
	waits := "all instances are being stopped"
	if primary != nil && primary.Status != metav1.ConditionTrue {
		waits = primary.Message
	}
	switch {
	case present && pg.Status.Ready:
		return outcome{backupv1alpha1.RunSucceeded, backupv1alpha1.ReasonSucceeded, ""}
	case present && primary != nil && primary.Status == metav1.ConditionFalse && slices.Contains(permanent, primary.Reason):
		return outcome{backupv1alpha1.RunFailed, primary.Reason, primary.Message}
	case elapsed > timeout:
		return outcome{backupv1alpha1.RunFailed, backupv1alpha1.ReasonDeadlineExceeded, fmt.Sprintf(
			"PostgreSQL %s was not ready within timeoutSeconds: %s", pg.Name, waits)}
	}
	return outcome{backupv1alpha1.RunRunning, backupv1alpha1.ReasonRunning, fmt.Sprintf("PostgreSQL %s: %s", pg.Name, waits)}
}

// progressInPlace is what the PostgreSQL says of the copy to these volumes; nil if it says nothing of them.
func progressInPlace(pg *databasev1alpha1.PostgreSQL, volumes int) *backupv1alpha1.Progress {
	if int(pg.Status.Volumes) != volumes {
		return nil
	}
	return pg.Status.Progress.DeepCopy()
}

// annotationPatch is a merge patch of annotations that fails if another client wrote in between.
func annotationPatch(pg *databasev1alpha1.PostgreSQL, change map[string]any) ([]byte, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": pg.ResourceVersion, "annotations": change}})
	if err != nil {
		return nil, fmt.Errorf("annotations: %w", err)
	}
	return patch, nil
}
