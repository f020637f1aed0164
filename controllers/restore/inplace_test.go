package restore

import (
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

func primaryIs(status metav1.ConditionStatus, reason string) []metav1.Condition {
	return []metav1.Condition{{Type: databasev1alpha1.PostgreSQLPrimaryReady, Status: status, Reason: reason, Message: "said"}}
}

// TestJudgeInPlace_byTheNewVolumes: what the PostgreSQL says of its former volumes decides nothing.
func TestJudgeInPlace_byTheNewVolumes(t *testing.T) {
	for name, c := range map[string]struct {
		status  databasev1alpha1.PostgreSQLStatus
		elapsed time.Duration
		want    string
	}{
		"ready on the former volumes": {databasev1alpha1.PostgreSQLStatus{Volumes: 1, Ready: true, Conditions: primaryIs("True", "PrimaryReady")}, 0, "Running Running"},
		"failed on the former volumes": {databasev1alpha1.PostgreSQLStatus{
			Volumes: 1, Conditions: primaryIs("False", databasev1alpha1.ReasonTargetTooEarly),
		}, 0, "Running Running"},
		"restoring":                 {databasev1alpha1.PostgreSQLStatus{Volumes: 2, Conditions: primaryIs("False", databasev1alpha1.ReasonCopying)}, 0, "Running Running"},
		"the store does not answer": {databasev1alpha1.PostgreSQLStatus{Volumes: 2, Conditions: primaryIs("False", "StoreUnreachable")}, 0, "Running Running"},
		"too early":                 {databasev1alpha1.PostgreSQLStatus{Volumes: 2, Conditions: primaryIs("False", "TargetTooEarly")}, 0, "Failed TargetTooEarly"},
		"damaged":                   {databasev1alpha1.PostgreSQLStatus{Volumes: 2, Conditions: primaryIs("False", "BackupDamaged")}, 0, "Failed BackupDamaged"},
		"not known yet":             {databasev1alpha1.PostgreSQLStatus{Volumes: 2, Conditions: primaryIs("Unknown", "TargetTooEarly")}, 0, "Running Running"},
		"ready":                     {databasev1alpha1.PostgreSQLStatus{Volumes: 2, Ready: true, Conditions: primaryIs("True", "PrimaryReady")}, 0, "Succeeded Succeeded"},
		"ready just before the end": {databasev1alpha1.PostgreSQLStatus{Volumes: 2, Ready: true}, 2 * time.Hour, "Succeeded Succeeded"},
		"too slow":                  {databasev1alpha1.PostgreSQLStatus{Volumes: 2, Conditions: primaryIs("False", "StoreUnreachable")}, 2 * time.Hour, "Failed DeadlineExceeded"},
		"stopping takes for ever":   {databasev1alpha1.PostgreSQLStatus{Volumes: 1, Ready: true}, 2 * time.Hour, "Failed DeadlineExceeded"},
	} {
		got := judgeInPlace(&databasev1alpha1.PostgreSQL{Status: c.status}, 2, c.elapsed, time.Hour)
		if is := string(got.phase) + " " + got.reason; is != c.want {
			t.Errorf("%s: %s, want %s", name, is, c.want)
		}
		if c.status.Conditions != nil && c.status.Conditions[0].Status == metav1.ConditionFalse && !strings.Contains(got.message, "said") {
			t.Errorf("%s: %q", name, got.message)
		}
	}
}

// TestProgressInPlace: the progress of other volumes is that of another restore.
func TestProgressInPlace(t *testing.T) {
	copied := &backupv1alpha1.Progress{Bytes: 5, TotalBytes: 10, Percent: new(int32(50))}
	for name, c := range map[string]struct {
		status databasev1alpha1.PostgreSQLStatus
		want   *backupv1alpha1.Progress
	}{
		"these volumes":  {databasev1alpha1.PostgreSQLStatus{Volumes: 2, Progress: copied}, copied},
		"former volumes": {databasev1alpha1.PostgreSQLStatus{Volumes: 1, Progress: copied}, nil},
		"nothing copied": {databasev1alpha1.PostgreSQLStatus{Volumes: 2}, nil},
	} {
		if got := progressInPlace(&databasev1alpha1.PostgreSQL{Status: c.status}, 2); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestWaitForPostgreSQL(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*databasev1alpha1.PostgreSQL)
		want   string
	}{
		"ready":     {func(*databasev1alpha1.PostgreSQL) {}, ""},
		"broken":    {func(pg *databasev1alpha1.PostgreSQL) { pg.Status.Ready = false }, ""},
		"paused":    {func(pg *databasev1alpha1.PostgreSQL) { pg.Spec.Paused = true }, "PostgreSQLNotReady"},
		"asleep":    {func(pg *databasev1alpha1.PostgreSQL) { pg.Spec.Hibernated = true }, "PostgreSQLNotReady"},
		"not seen":  {func(pg *databasev1alpha1.PostgreSQL) { pg.Status.Volumes = 0 }, "PostgreSQLNotReady"},
		"switching": {func(pg *databasev1alpha1.PostgreSQL) { pg.Annotations = map[string]string{"fettle.dev/volumes": "3"} }, "PostgreSQLNotReady"},
		"restored by another one": {func(pg *databasev1alpha1.PostgreSQL) {
			pg.Annotations = map[string]string{"fettle.dev/recovery": "other/uid"}
		}, "Waiting"},
	} {
		pg := &databasev1alpha1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Status: databasev1alpha1.PostgreSQLStatus{Ready: true, Volumes: 1}}
		c.change(pg)
		blocked := waitForPostgreSQL("shop", pg)
		if got := blocked; (got == nil) != (c.want == "") || got != nil && (got.Reason != c.want || got.Final) {
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
	}
	if blocked := waitForPostgreSQL("shop", nil); blocked == nil || blocked.Reason != backupv1alpha1.ReasonPostgreSQLMissing {
		t.Errorf("%+v", blocked)
	}
}
