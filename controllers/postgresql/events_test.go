package postgresql

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/reconciler"
)

// start is when the PostgreSQLs of these tests are made.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// moment is what is seen at a time after a PostgreSQL was made, in the words of picture; U is an instance that serves and has
// no label yet.
type moment struct {
	second int
	words  string
	change func(*observed)
}

// scene is what the operator would see then: agents answer where PostgreSQL runs.
func (m moment) scene(at time.Time) *observed {
	seen := &observed{at: at, cluster: *picture(len(m.words)/2+1, m.words)}
	for i := range seen.cluster.instances {
		switch in := &seen.cluster.instances[i]; {
		case in.labelled(databasev1alpha1.LabelRolePrimary):
			in.status = &agentapi.Status{Ready: true, Role: agentapi.Primary, Timeline: 1, Generation: 1}
		case in.ready():
			in.status = &agentapi.Status{Ready: true, Role: agentapi.Replica, Timeline: 1, Generation: 1}
		}
	}
	if m.change != nil {
		m.change(seen)
	}
	return seen
}

// TestWritesOfACreation holds that progress costs few writes, and that what people wait for, and trouble, are written at once.
func TestWritesOfACreation(t *testing.T) {
	pulls := func(n int) func(*observed) {
		return func(seen *observed) {
			seen.cluster.instances[n].pod.Status.ContainerStatuses = []corev1.ContainerStatus{
				{Name: mainContainer, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}},
			}
		}
	}
	madeAt := func(second int) func(*observed) {
		return func(seen *observed) {
			for i := range seen.cluster.instances {
				seen.cluster.instances[i].pod.CreationTimestamp = metav1.NewTime(start.Add(time.Duration(second) * time.Second))
			}
		}
	}
	refused := func(seen *observed) { seen.rejected = "role app: no" }
	unreachable := func(seen *observed) { seen.objectsErr = errors.New("no answer") }
	for _, c := range []struct {
		name    string
		moments []moment
		want    []string
	}{
		{"the first database comes after the primary", []moment{{0, "N N", nil}, {4, "N N", nil}, {6, "P N", unreachable}, {7, "P R", nil}},
			[]string{"4 Creating Creating U U", "7 Running Ready P R"}},
		{"fast", []moment{{0, "- - -", nil}, {1, "N N N", nil}, {2, "P R R", nil}}, []string{"2 Running Ready P R R"}},
		{"slow", []moment{{0, "- - -", nil}, {4, "N N N", nil}, {6, "P N N", nil}, {9, "P R N", nil}, {20, "P R N", nil}, {40, "P R R", nil}, {41, "P R R", nil}},
			[]string{"4 Creating Creating U U U", "6 Creating Creating P U U", "40 Running Ready P R R"}},
		{"labels come later", []moment{{0, "N N N", nil}, {2, "P U U", nil}, {3, "P R U", nil}, {4, "P R R", nil}}, []string{"2 Running Ready P R R"}},
		{"a replica does not come", []moment{{0, "N N", nil}, {4, "N N", nil}, {10, "P N", nil}, {44, "P N", nil}, {46, "P N", nil}},
			[]string{"4 Creating Creating U U", "10 Creating Creating P U", "46 Degraded InstanceNotReady P U"}},
		{"pods come late", []moment{{0, "- -", nil}, {4, "- -", nil}, {44, "N N", madeAt(40)}, {60, "P N", madeAt(40)}, {90, "P N", madeAt(40)}},
			[]string{"4 Creating Creating U U", "60 Creating Creating P U", "90 Degraded InstanceNotReady P U"}},
		{"no image", []moment{{0, "N N", nil}, {4, "N N", nil}, {5, "N N", pulls(0)}},
			[]string{"4 Creating Creating U U", "5 Failed ImagePullBackOff U U"}},
		{"no image from the start", []moment{{0, "N N", pulls(1)}}, []string{"0 Failed ImagePullBackOff U U"}},
		{"trouble beside a start", []moment{{0, "N N", nil}, {4, "N N", nil}, {6, "P N", refused}, {7, "P R", refused}, {8, "P R", nil}},
			[]string{"4 Creating Creating U U", "6 Creating Creating P U", "7 Degraded ApplyRejected P R", "8 Running Ready P R"}},
		{"trouble beside a start that serves already", []moment{{0, "N N", nil}, {4, "N N", nil}, {6, "P N", nil}, {7, "P N", refused}, {9, "P R", nil}},
			[]string{"4 Creating Creating U U", "6 Creating Creating P U", "7 Creating Creating P U", "9 Running Ready P R"}},
		{"a start that goes on beside trouble", []moment{{0, "N N N", nil}, {4, "N N N", nil}, {6, "P N N", refused}, {7, "P R N", refused}, {30, "P R R", refused}},
			[]string{"4 Creating Creating U U U", "6 Creating Creating P U U", "30 Degraded ApplyRejected P R R"}},
		{"the first primary is lost again", []moment{{0, "N N", nil}, {4, "P N", nil}, {5, "N N", nil}},
			[]string{"4 Creating Creating P U", "5 Creating Creating U U"}},
		{"one that was Ready is in trouble", []moment{{0, "P R", nil}, {1, "P N", nil}, {2, "N N", nil}, {3, "P R", nil}},
			[]string{"0 Running Ready P R", "1 Degraded InstanceNotReady P U", "2 Degraded NoPrimary U U", "3 Running Ready P R"}},
		{"only what is said of an instance", []moment{{0, "P R N", nil}, {60, "P R N", nil}, {61, "P U N", func(seen *observed) {
			seen.cluster.instances[2].status = &agentapi.Status{}
			seen.cluster.instances[1].status.Role = ""
		}}}, []string{"0 Creating Creating P R U", "60 Degraded InstanceNotReady P R U", "61 Degraded InstanceNotReady P U U"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, play(t, c.moments)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// play returns the second, the phase, the reason of Ready and the roles of each status that is written.
func play(t *testing.T, moments []moment) (writes []string) {
	t.Helper()
	clock := clocktesting.NewFakePassiveClock(start)
	r := &Reconciler{Tools: reconciler.Tools{Options: reconciler.Options{Clock: clock}, Throttle: conditions.NewStatusThrottle(reconciler.CoalescingWindow, clock)}}
	stored := wanting(int32(len(moments[0].words)/2 + 1))
	stored.UID, stored.Generation, stored.CreationTimestamp = "pg", 1, metav1.NewTime(start)
	stored.Status.Phase = databasev1alpha1.PhasePending
	for _, m := range moments {
		clock.SetTime(start.Add(time.Duration(m.second) * time.Second))
		pg := stored.DeepCopy()
		seen := m.scene(clock.Now())
		seen.objectsApplied = seen.cluster.primary() != nil && seen.objectsErr == nil
		setStatus(pg, seen)
		if equality.Semantic.DeepEqual(pg.Status, stored.Status) || r.statusDelay(pg, stored) > 0 {
			continue
		}
		r.Throttle.Wrote(pg)
		stored = pg
		said := fmt.Sprintf("%d %s %s", m.second, pg.Status.Phase, meta.FindStatusCondition(pg.Status.Conditions, fettlev1.Ready).Reason)
		for _, in := range pg.Status.InstanceStatuses {
			said += " " + string(in.Role[0])
		}
		writes = append(writes, said)
	}
	return writes
}

// TestInstancesAloneWait holds that roles which are known one after another are one write.
func TestInstancesAloneWait(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	r := &Reconciler{Tools: reconciler.Tools{Options: reconciler.Options{Clock: clock}, Throttle: conditions.NewStatusThrottle(reconciler.CoalescingWindow, clock)}}
	before := wanting(2)
	before.UID, before.Status.Phase, before.Status.Timeline = "pg", databasev1alpha1.PhaseRunning, 1
	before.Status.InstanceStatuses = []databasev1alpha1.PostgreSQLInstance{{Name: "pg-0", Role: databasev1alpha1.RoleUnknown}}
	r.Throttle.Wrote(before)
	after := before.DeepCopy()
	after.Status.InstanceStatuses[0].Role = databasev1alpha1.RoleReplica
	if wait := r.statusDelay(after, before); wait <= 0 {
		t.Error("the role alone is written at once, after a write")
	}
	after.Status.Primary = "pg-1"
	if wait := r.statusDelay(after, before); wait > 0 {
		t.Errorf("another primary waits for %s", wait)
	}
}

// TestApplyDatabaseObjects_once: what the primary has applied is not sent again, though the last answer of its agent is from before.
func TestApplyDatabaseObjects_once(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	r := &Reconciler{Tools: reconciler.Tools{Options: reconciler.Options{Clock: clock}, Live: unreachable{}}, history: newHistory(clock), backoff: newApplyBackoff(clock)}
	pg := wanting(1)
	pg.Spec.Roles = []databasev1alpha1.PostgreSQLRole{{Name: "reader", PasswordSecret: &fettlev1.SecretKeyReference{Name: "reader"}}}
	in := &inputs{objectsHash: "wishes", cluster: *picture(1, "P"), passwords: map[string]password{}}
	seen := &observed{}
	if err := r.applyDatabaseObjects(t.Context(), pg, in, seen); !errors.Is(err, errUnreachable) {
		t.Errorf("it was to be told, and the Secret to be read: %v", err)
	}
	r.history.recordApplied(client.ObjectKeyFromObject(pg), "wishes", 0)
	if err := r.applyDatabaseObjects(t.Context(), pg, in, seen); err != nil {
		t.Errorf("it is told again: %v", err)
	}
	if !seen.objectsApplied {
		t.Error("it is not known that they are applied")
	}
	in.objectsHash = "others"
	if err := r.applyDatabaseObjects(t.Context(), pg, in, seen); !errors.Is(err, errUnreachable) {
		t.Errorf("it was to be told of others: %v", err)
	}
}

var errUnreachable = errors.New("unreachable")

// unreachable is an API server that is away.
type unreachable struct{ client.Reader }

func (unreachable) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errUnreachable
}
