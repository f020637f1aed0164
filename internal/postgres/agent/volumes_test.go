package agent

import (
	"reflect"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/election"
)

// formerLease is a Lease of the first volumes, which have had a primary on timeline 9.
func formerLease(t *testing.T) *coordinationv1.Lease {
	t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "db", ResourceVersion: "7", Annotations: map[string]string{AnnotationFresh: "true"}}}
	writes(t, lease, election.Lease{Primary: "db-0", SystemID: "5", Timeline: 9})
	return lease
}

func writes(t *testing.T, lease *coordinationv1.Lease, record election.Lease) {
	t.Helper()
	record.Holder = election.Holder{Name: "db-0", UID: "1"}
	if err := fill(lease, record, 1, metav1.NowMicro()); err != nil {
		t.Fatal(err)
	}
}

func resets(t *testing.T, lease *coordinationv1.Lease, volumes int, existing bool, recovery *databasev1alpha1.PostgreSQLRecovery) *leaseRecord {
	t.Helper()
	if err := ResetLease(lease, volumes, existing, recovery); err != nil {
		t.Fatal(err)
	}
	record, err := recordOf(lease)
	if err != nil {
		t.Fatal(err)
	}
	return record
}

var toTransaction = &databasev1alpha1.PostgreSQLRecovery{Backup: "db", RecoveryTarget: backupv1alpha1.RecoveryTarget{TargetXID: "12"}}

// TestResetLease_startsAnew: nothing of the record of other volumes is left, except the timelines that they have used.
func TestResetLease_startsAnew(t *testing.T) {
	lease := formerLease(t)
	record := resets(t, lease, 2, false, toTransaction)
	want := leaseRecord{Fresh: true, Volumes: 2, AfterTimeline: 9, Recovery: `{"backup":"db","targetXID":"12"}`, object: lease}
	want.Version = "7"
	if !reflect.DeepEqual(*record, want) {
		t.Errorf("%+v, want %+v", *record, want)
	}
	if lease.Annotations[AnnotationFresh] != "" {
		t.Error("an agent that cannot recover would make an empty database")
	}
	bootstrap, err := bootstrapOf(newObject(func(*databasev1alpha1.PostgreSQL) {}), record)
	if err != nil || !reflect.DeepEqual(bootstrap.Recovery, toTransaction) {
		t.Errorf("%+v, %v", bootstrap, err)
	}
	writes(t, lease, election.Lease{Primary: "db-0", Timeline: 10})
	want = leaseRecord{Volumes: 1, AfterTimeline: 10, object: lease}
	want.Version = "7"
	if record = resets(t, lease, 1, true, nil); !reflect.DeepEqual(*record, want) {
		t.Errorf("back: %+v, want %+v", *record, want)
	}
}

// TestResetLease_recoversOnce: the recovery is gone when there is a primary, and when the Lease is created again.
func TestResetLease_recoversOnce(t *testing.T) {
	lease := formerLease(t)
	resets(t, lease, 2, false, toTransaction)
	writes(t, lease, election.Lease{})
	if lease.Annotations[AnnotationRecovery] == "" {
		t.Error("the recovery is gone before there is a primary")
	}
	again := recreation(lease).Annotations
	if again[AnnotationRecovery] != "" || again[AnnotationVolumes] != "2" || again[AnnotationAfterTimeline] != "" {
		t.Errorf("a Lease that is created again: %v", again)
	}
	writes(t, lease, election.Lease{Primary: "db-0", Timeline: 10})
	if lease.Annotations[AnnotationRecovery] != "" {
		t.Error("the recovery could be repeated")
	}
}

// TestLease_deletionKeepsVolumes: instances that read the Lease between its deletion and its creation do not stop for other volumes.
func TestLease_deletionKeepsVolumes(t *testing.T) {
	for annotation, want := range map[string]int{"": 1, "2": 2} {
		api, client := newLeaseAPI(t, election.Lease{SystemID: "7"})
		if annotation != "" {
			api.stored.Annotations[AnnotationVolumes] = annotation
		}
		for _, api.there = range []bool{true, false} {
			record, err := client.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if record.Volumes != want {
				t.Errorf("volumes %d, want %d, Lease found: %t", record.Volumes, want, api.there)
			}
		}
	}
}

// TestBootstrapOf_laterVolumes: later volumes that have lost their data do not become an empty database.
func TestBootstrapOf_laterVolumes(t *testing.T) {
	for name, c := range map[string]struct {
		lease *leaseRecord
		want  string
	}{
		"no lease":                 {nil, ""},
		"the first volumes":        {&leaseRecord{Volumes: 1}, ""},
		"new, with a number":       {&leaseRecord{Volumes: 2, Fresh: true}, ""},
		"later ones without data":  {&leaseRecord{Volumes: 2}, "have no data"},
		"a recovery of other text": {&leaseRecord{Volumes: 2, Fresh: true, Recovery: "{"}, AnnotationRecovery},
	} {
		if _, err := bootstrapOf(newObject(func(*databasev1alpha1.PostgreSQL) {}), c.lease); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestLeavesVolumes: instances stop only for volumes that the operator will start them with.
func TestLeavesVolumes(t *testing.T) {
	for name, c := range map[string]struct {
		number string
		paused bool
		want   bool
	}{
		"none": {"", false, false}, "the present ones": {"1", false, false}, "others": {"2", false, true},
		"no number": {"two", false, false}, "others, while paused": {"2", true, false},
	} {
		object := newObject(func(o *databasev1alpha1.PostgreSQL) {
			o.Spec.Paused = c.paused
			if c.number != "" {
				o.Annotations = map[string]string{databasev1alpha1.AnnotationVolumes: c.number}
			}
		})
		if got := leavesVolumes(trim(object), 1); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
