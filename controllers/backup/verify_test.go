package backup

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/conditions"
)

// verified has a verification each hour, and a run that has succeeded.
func verified(b *backupv1alpha1.Backup) {
	b.Spec.Verify = &backupv1alpha1.BackupVerification{Schedule: "@hourly"}
	b.Status.LastSuccessfulRun = "run"
}

// verification is the Restore for a minute, which ended a minute later unless it goes on.
func verification(minute int, phase backupv1alpha1.RunPhase) *backupv1alpha1.Restore {
	r := &backupv1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Name: verificationName("db", at(minute).Time), Generation: 1}}
	r.Spec.From.Run, r.Status.Phase = "run", phase
	if phase == succeeded || phase == failed {
		r.Status.CompletionTime = at(minute + 1)
		r.Status.Result = &backupv1alpha1.RunResult{Tables: 3, Rows: 1000}
	}
	if phase == failed {
		conditions.Set(r, fettlev1.Ready, metav1.ConditionFalse, backupv1alpha1.ReasonBackupDamaged, "broken")
	}
	return r
}

func TestVerificationDue(t *testing.T) {
	hour := 60
	for name, c := range map[string]struct {
		now      int
		restores []*backupv1alpha1.Restore
		change   func(*backupv1alpha1.Backup)
		slot     int // -1 for none
	}{
		"not yet":                {now: 59, slot: -1},
		"the first":              {now: hour, slot: hour},
		"once for a slot":        {now: hour + 5, restores: []*backupv1alpha1.Restore{verification(hour, failed)}, slot: -1},
		"one at a time":          {now: 2 * hour, restores: []*backupv1alpha1.Restore{verification(hour, running)}, slot: -1},
		"the next":               {now: 2 * hour, restores: []*backupv1alpha1.Restore{verification(hour, succeeded)}, slot: 2 * hour},
		"the last of the missed": {now: 5*hour + 1, slot: 5 * hour},
		"suspended":              {now: hour, change: func(b *backupv1alpha1.Backup) { b.Spec.Suspend = true }, slot: -1},
		"no backup yet":          {now: hour, change: func(b *backupv1alpha1.Backup) { b.Status.LastSuccessfulRun = "" }, slot: -1},
		"Restores were deleted":  {now: hour + 5, change: func(b *backupv1alpha1.Backup) { b.Status.LastVerifiedTime = at(hour + 1) }, slot: -1},
	} {
		b := newBackup(verified)
		if c.change != nil {
			c.change(b)
		}
		times, invalid := parseVerification(b)
		if invalid != "" {
			t.Fatal(invalid)
		}
		slot, _ := verificationDue(b, times, c.restores, at(c.now).Time)
		if want := at(c.slot).Time; c.slot < 0 && !slot.IsZero() || c.slot >= 0 && !slot.Equal(want) {
			t.Errorf("%s: %s", name, slot)
		}
	}
}

func TestVerificationName(t *testing.T) {
	long := strings.Repeat("a-", 19) + "b"
	for backup, want := range map[string]string{
		"db": "verify-db-202611230200", strings.Repeat("x", 29): "verify-" + strings.Repeat("x", 29) + "-202611230200",
	} {
		if got := verificationName(backup, start); got != want {
			t.Errorf("%s: %s, want %s", backup, got, want)
		}
	}
	name, other := verificationName(long, start), verificationName(long+"c", start)
	if len(name) > 49 || name == other || strings.Contains(name, "--") {
		t.Errorf("%s and %s", name, other)
	}
	if slot := verificationSlot(&backupv1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Name: name}}); !slot.Equal(start) {
		t.Errorf("slot %s of %s", slot, name)
	}
}

func TestSetVerified(t *testing.T) {
	b := newBackup(verified)
	say := func(restores ...*backupv1alpha1.Restore) string {
		recordVerifications(b, restores)
		setVerified(b, restores)
		setStatus(b, conditions.True(backupv1alpha1.ReasonAccepted, ""), nil)
		c := meta.FindStatusCondition(b.Status.Conditions, backupv1alpha1.BackupVerified)
		if c == nil {
			return ""
		}
		return string(c.Status) + " " + c.Reason
	}
	record(b, []backupv1alpha1.BackupRun{run("run", 1, succeeded)})
	for _, step := range []struct {
		restores []*backupv1alpha1.Restore
		want     string
		ready    metav1.ConditionStatus
		time     *metav1.Time
	}{
		{nil, "Unknown NotVerified", metav1.ConditionTrue, nil},
		{[]*backupv1alpha1.Restore{verification(0, running)}, "Unknown NotVerified", metav1.ConditionTrue, nil},
		{[]*backupv1alpha1.Restore{verification(0, succeeded)}, "True Verified", metav1.ConditionTrue, at(1)},
		{[]*backupv1alpha1.Restore{verification(5, failed), verification(0, succeeded)}, "False BackupDamaged", metav1.ConditionFalse, at(1)},
		{nil, "False BackupDamaged", metav1.ConditionFalse, at(1)}, // they were deleted
		{[]*backupv1alpha1.Restore{verification(5, failed), verification(9, succeeded)}, "True Verified", metav1.ConditionTrue, at(10)},
	} {
		if got := say(step.restores...); got != step.want || conditions.ReadyOf(b).Status != step.ready || !b.Status.LastVerifiedTime.Equal(step.time) {
			t.Errorf("%s, Ready %s, verified at %s, want %+v", got, conditions.ReadyOf(b).Status, b.Status.LastVerifiedTime, step)
		}
	}
	b.Spec.Verify = nil
	if got := say(); got != "" || b.Status.LastVerifiedRun != "run" {
		t.Errorf("%q is left, of run %q", got, b.Status.LastVerifiedRun)
	}
}

func TestParseVerification_invalid(t *testing.T) {
	for _, c := range []struct{ schedule, zone, want string }{
		{"* * * * *", "", "spec.verify.schedule"}, {"@weekly", "Mars", "spec.timeZone"},
	} {
		b := newBackup(verified, func(b *backupv1alpha1.Backup) { b.Spec.Verify.Schedule, b.Spec.TimeZone = c.schedule, c.zone })
		if _, invalid := parseVerification(b); !strings.HasPrefix(invalid, c.want) {
			t.Errorf("%+v: %q", c, invalid)
		}
	}
}

// TestEndedVerifications: the first to end is first, because it is deleted first.
func TestEndedVerifications(t *testing.T) {
	ended := endedVerifications([]*backupv1alpha1.Restore{verification(9, succeeded), verification(3, failed), verification(12, running)})
	if len(ended) != 2 || !ended[0].Status.CompletionTime.Equal(at(4)) {
		t.Errorf("%v", ended)
	}
}
