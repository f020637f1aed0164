package webhook

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

// Attack 47: Backups and PostgreSQLs with schedules that would run every minute are rejected, and what is there already can change.
func TestSchedule_isChecked(t *testing.T) {
	with := func(schedule string) *backupv1alpha1.Backup {
		b := &backupv1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "db"}}
		b.Spec.Schedule, b.Spec.TimeZone = schedule, "Europe/Berlin"
		return b
	}
	v, pgs := backupValidator{}, newPostgreSQLValidator()
	rejects := func(what string, err error, want string) {
		t.Helper()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	for schedule, want := range map[string]string{"": "", "@daily": "", "* * * * *": "more often than every 5m0s", "0 25 * * *": "above maximum"} {
		_, err := v.ValidateCreate(t.Context(), with(schedule))
		rejects("Backup, "+schedule, err, want)
		pg := &databasev1alpha1.PostgreSQL{Spec: databasev1alpha1.PostgreSQLSpec{Version: "16", Backup: &databasev1alpha1.PostgreSQLBackup{Schedule: schedule}}}
		_, err = pgs.ValidateCreate(t.Context(), pg)
		rejects("PostgreSQL, "+schedule, err, want)
		_, err = pgs.ValidateUpdate(t.Context(), pg, pg.DeepCopy())
		rejects("PostgreSQL as it was, "+schedule, err, "")
		_, err = v.ValidateUpdate(t.Context(), with("@hourly"), with(schedule))
		rejects("change, "+schedule, err, want)
	}
	_, err := v.ValidateUpdate(t.Context(), with("* * * * *"), with("* * * * *"))
	rejects("as it was", err, "")
	deleted := with("* * * * *")
	deleted.DeletionTimestamp = new(metav1.Now())
	_, err = v.ValidateUpdate(t.Context(), with("@daily"), deleted)
	rejects("being deleted", err, "")
	zone := with("@daily")
	zone.Spec.TimeZone = "Mars/Base"
	_, err = v.ValidateUpdate(t.Context(), with("@daily"), zone)
	rejects("time zone", err, "timeZone")
}
