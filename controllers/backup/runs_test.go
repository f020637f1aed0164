package backup

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/schedule"
)

var start = time.Date(2026, 11, 23, 2, 0, 0, 0, time.UTC)

func at(minute int) *metav1.Time {
	return &metav1.Time{Time: start.Add(time.Duration(minute) * time.Minute)}
}

func newBackup(change ...func(*backupv1alpha1.Backup)) *backupv1alpha1.Backup {
	b := &backupv1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "shop", UID: "1", Generation: 1, CreationTimestamp: *at(0)}}
	b.Spec.StartingDeadlineSeconds = 3600
	for _, f := range change {
		f(b)
	}
	return b
}

// run is one that was created in a minute, and ended a minute later unless it goes on.
func run(name string, minute int, phase backupv1alpha1.RunPhase) backupv1alpha1.BackupRun {
	r := backupv1alpha1.BackupRun{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: *at(minute)}}
	r.Status.Phase = phase
	if phase == backupv1alpha1.RunSucceeded || phase == backupv1alpha1.RunFailed {
		r.Status.StartTime, r.Status.CompletionTime = at(minute), at(minute+1)
		r.Status.Result = &backupv1alpha1.RunResult{StoredBytes: int64(minute)}
		r.Status.Location = "s3://b/" + name
	}
	return r
}

const (
	pending, running  = backupv1alpha1.RunPending, backupv1alpha1.RunRunning
	succeeded, failed = backupv1alpha1.RunSucceeded, backupv1alpha1.RunFailed
)

// Attack 49: many runs of a Backup at once. One is active, whatever order they come in, until it has ended.
func TestActive_oneAtATime(t *testing.T) {
	for name, c := range map[string]struct {
		before   string
		accepted bool
		runs     []backupv1alpha1.BackupRun
		want     string
	}{
		"none":                           {"", true, nil, ""},
		"the oldest":                     {"", true, []backupv1alpha1.BackupRun{run("b", 2, pending), run("a", 3, pending), run("c", 1, failed)}, "b"},
		"of the same second":             {"", true, []backupv1alpha1.BackupRun{run("b", 2, pending), run("a", 2, pending)}, "a"},
		"an older one comes later":       {"b", true, []backupv1alpha1.BackupRun{run("a", 1, pending), run("b", 2, running)}, "b"},
		"the next":                       {"b", true, []backupv1alpha1.BackupRun{run("a", 1, pending), run("b", 2, failed)}, "a"},
		"it was deleted":                 {"b", true, []backupv1alpha1.BackupRun{run("a", 1, pending)}, "a"},
		"the Backup cannot run":          {"", false, []backupv1alpha1.BackupRun{run("a", 1, pending)}, ""},
		"the Backup cannot run any more": {"a", false, []backupv1alpha1.BackupRun{run("a", 1, running)}, "a"},
	} {
		b := newBackup()
		b.Status.ActiveRun = c.before
		if got := active(b, c.runs, c.accepted); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestRecord(t *testing.T) {
	b := newBackup()
	runs := []backupv1alpha1.BackupRun{run("db-202611230200", 0, succeeded), run("x", 3, failed), run("y", 2, failed), run("z", 5, running)}
	record(b, runs)
	record(b, runs) // nothing counts twice
	st := &b.Status
	if st.LastRun != "x" || st.LastSuccessfulRun != "db-202611230200" || st.ConsecutiveFailures != 2 || !st.LastScheduleTime.Equal(at(0)) ||
		st.LastDurationSeconds != 60 || st.LastLocation != "s3://b/db-202611230200" {
		t.Errorf("%+v", st)
	}
	runs = append(runs[1:3], run("z", 5, failed))
	record(b, runs)
	if st.ConsecutiveFailures != 3 || st.LastSuccessfulRun != "db-202611230200" {
		t.Errorf("a deleted run is forgotten, or a failure does not count: %+v", st)
	}
	together := append(runs, run("s1", 6, failed), run("s2", 6, failed))
	record(b, together)
	record(b, together)
	if st.ConsecutiveFailures != 5 {
		t.Errorf("%d failures, of which two ended in one second, want 5", st.ConsecutiveFailures)
	}
	record(b, append(runs, run("db-202611230100", -60, running)))
	if !st.LastScheduleTime.Equal(at(0)) {
		t.Errorf("an older slot took the place of the last one: %s", st.LastScheduleTime)
	}
	record(b, append(runs, run("w", 7, succeeded)))
	if st.ConsecutiveFailures != 0 || st.LastSuccessfulRun != "w" || st.LastSizeBytes != 7 {
		t.Errorf("after a success: %+v", st)
	}
}

// Attack 47, the objects: they do not pile up. The last successful one always stays.
func TestExpired(t *testing.T) {
	b := newBackup()
	var runs []backupv1alpha1.BackupRun
	for i := range 30 {
		r := run(fmt.Sprintf("db-%d", i), i, failed)
		r.OwnerReferences = []metav1.OwnerReference{{UID: b.UID, Controller: new(true)}}
		if i == 3 {
			r.Status.Phase = succeeded
		}
		runs = append(runs, r)
	}
	for i := range 60 {
		runs = append(runs, run(fmt.Sprintf("manual-%d", i), i, failed), run(fmt.Sprintf("going-%d", i), i, running))
	}
	record(b, runs)
	gone := map[string]bool{}
	for _, r := range expired(b, runs) {
		gone[r.Name] = true
	}
	if len(gone) != 19+10 || gone["db-3"] || !gone["db-19"] || gone["db-20"] || !gone["manual-9"] || gone["manual-10"] || gone["going-0"] {
		t.Errorf("%v", gone)
	}
}

func TestDue(t *testing.T) {
	every := func(expression string) func(*backupv1alpha1.Backup) {
		return func(b *backupv1alpha1.Backup) { b.Spec.Schedule = expression }
	}
	ran := func(minute int) func(*backupv1alpha1.Backup) {
		return func(b *backupv1alpha1.Backup) { b.Status.LastScheduleTime = at(minute) }
	}
	physical := func(b *backupv1alpha1.Backup) { b.Spec.Method = backupv1alpha1.MethodPhysical }
	suspend := func(b *backupv1alpha1.Backup) { b.Spec.Suspend = true }
	newYear := int(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC).Sub(start).Minutes())
	for name, c := range map[string]struct {
		backup     *backupv1alpha1.Backup
		now        int
		slot, next int // minutes, -1 for never
	}{
		"without a schedule, at once":      {newBackup(), 500, 0, -1},
		"without a schedule, once":         {newBackup(ran(0)), 1, -1, -1},
		"not for the time of the creation": {newBackup(every("0 * * * *")), 0, -1, 60},
		"due":                              {newBackup(every("0 * * * *")), 60, 60, 120},
		"has run":                          {newBackup(every("0 * * * *"), ran(60)), 61, -1, 120},
		"of two missed ones, the last":     {newBackup(every("*/30 * * * *")), 70, 60, 90},
		"suspended":                        {newBackup(every("0 * * * *"), suspend), 60, -1, -1},
		"resumed within the deadline":      {newBackup(every("0 * * * *"), ran(0)), 110, 60, 120},
		"changed: the same slot":           {newBackup(every("*/5 * * * *"), ran(60)), 61, -1, 65},
		"physical, at once":                {newBackup(every("0 * * * *"), physical), 1, 0, 60},
		"physical, at once, though late":   {newBackup(every("@yearly"), physical), 600, 0, newYear},
		"physical, missed, the slot":       {newBackup(every("0 * * * *"), physical), 61, 60, 120},
		"physical, once":                   {newBackup(every("0 * * * *"), physical, ran(0)), 1, -1, 60},
		"physical, suspended":              {newBackup(every("0 * * * *"), physical, suspend), 1, -1, -1},
		"the schedule was removed":         {newBackup(ran(60)), 600, -1, -1},
		"a schedule was added":             {newBackup(every("0 * * * *"), ran(0)), 30, -1, 60},
	} {
		var times *schedule.Schedule
		if c.backup.Spec.Schedule != "" {
			var err error
			if times, err = schedule.Parse(c.backup.Spec.Schedule, ""); err != nil {
				t.Fatal(err)
			}
		}
		slot, next := due(c.backup, times, at(c.now).Time)
		for what, pair := range map[string]struct {
			got  time.Time
			want int
		}{"slot": {slot, c.slot}, "next": {next, c.next}} {
			if pair.want < 0 && !pair.got.IsZero() || pair.want >= 0 && !pair.got.Equal(at(pair.want).Time) {
				t.Errorf("%s: %s is %s, want minute %d", name, what, pair.got, pair.want)
			}
		}
	}
}

func TestRecordArchive(t *testing.T) {
	pg := &databasev1alpha1.PostgreSQL{}
	pg.Status.LastArchivedTime = at(9)
	b := newBackup(func(b *backupv1alpha1.Backup) { b.Spec.Method = backupv1alpha1.MethodPhysical })
	recordArchive(b, pg)
	if b.Status.LastRecoverableTime != nil {
		t.Error("a window without a base backup")
	}
	b.Status.FirstRecoverableTime = at(1)
	recordArchive(b, pg)
	recordArchive(b, &databasev1alpha1.PostgreSQL{})
	recordArchive(b, nil)
	if !b.Status.LastRecoverableTime.Equal(at(9)) {
		t.Errorf("%v, want the end of the archive", b.Status.LastRecoverableTime)
	}
}
