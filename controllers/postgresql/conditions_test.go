package postgresql

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/election"
)

// TestWhatAgentsSay holds that what an agent needs a person for is told by a condition: which instance it is, and what to do.
func TestWhatAgentsSay(t *testing.T) {
	for _, c := range []struct {
		name   string
		status agentapi.Status
		reason string
		words  []string
	}{
		{"can't follow", agentapi.Status{NeedsReclone: true, Message: "annotate it"}, "RecloneNeeded", []string{"pg-1", "annotate it"}},
		{"waits", agentapi.Status{Message: "waits for pg-0"}, "InstanceNotReady", []string{"pg-1", "waits for pg-0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := picture(2, "P N")
			seen.instances[1].status = &c.status
			pg := wanting(2)
			pg.Status.Timeline, pg.Status.Phase = 1, databasev1alpha1.PhaseRunning
			v := instancesReady(pg, &observed{cluster: *seen})
			if v.Status != metav1.ConditionFalse || v.Reason != c.reason {
				t.Errorf("got %s %s", v.Status, v.Reason)
			}
			for _, word := range c.words {
				if !strings.Contains(v.Message, word) {
					t.Errorf("%q does not say %q", v.Message, word)
				}
			}
		})
	}
}

// TestDiskFullSaysWho holds that a server without space is told of also where its volume has some left, too little to go on.
func TestDiskFullSaysWho(t *testing.T) {
	seen := picture(2, "P R")
	seen.instances[1].status = &agentapi.Status{Ready: true, DiskTotal: 100, DiskFree: 20, DiskFull: true}
	v := volumesReady(wanting(2), seen, growth{}, nil, metav1.Now().Time)
	if v.Reason != "DiskFull" || !strings.Contains(v.Message, "pg-1") || !strings.Contains(v.Message, "spec.storage") {
		t.Errorf("got %s: %s", v.Reason, v.Message)
	}
}

// TestPrimaryReady_writesRejected: a primary that rejects writes is not ready, and its agent says what to do.
func TestPrimaryReady_writesRejected(t *testing.T) {
	seen, pg := picture(2, "P R"), wanting(2)
	pg.Status.Timeline, pg.Status.Phase = 1, databasev1alpha1.PhaseRunning
	if v := primaryReady(pg, &observed{cluster: *seen}); v.Status != metav1.ConditionTrue {
		t.Fatalf("got %s %s before", v.Status, v.Reason)
	}
	seen.instances[0].status = &agentapi.Status{Ready: true, Reason: databasev1alpha1.ReasonWritesRejected, Message: "pg-0 rejects: VACUUM"}
	v := primaryReady(pg, &observed{cluster: *seen})
	if v.Status != metav1.ConditionFalse || v.Reason != "WritesRejected" || v.Message != "pg-0 rejects: VACUUM" {
		t.Errorf("got %s %s: %s", v.Status, v.Reason, v.Message)
	}
}

// TestDataLossNotAccepted: where nobody leads as too much would be lost, the condition is about who lacks least, and where an instance has
// what the primary lacks, about that one. Either way it says what the agent says.
func TestDataLossNotAccepted(t *testing.T) {
	asks := func(message string, at uint64) *agentapi.Status {
		return &agentapi.Status{
			Reason: databasev1alpha1.ReasonDataLossNotAccepted, Message: message,
			Election: election.State{Position: election.Position{Timeline: 1, LSN: at}},
		}
	}
	pg := wanting(3)
	pg.Status.Timeline, pg.Status.Phase = 1, databasev1alpha1.PhaseRunning
	seen := picture(3, "N R R")
	seen.instances[1].status, seen.instances[2].status = asks("lacks 9 bytes", 1), asks("lacks 7 bytes", 3)
	v := primaryReady(pg, &observed{cluster: *seen})
	if v.Status != metav1.ConditionFalse || v.Reason != "DataLossNotAccepted" || v.Message != "no primary: pg-2 lacks 7 bytes" {
		t.Errorf("got %s %s: %s", v.Status, v.Reason, v.Message)
	}
	seen = picture(2, "P N")
	seen.instances[1].status = asks("has 7 bytes", 1)
	v = instancesReady(wanting(2), &observed{cluster: *seen})
	if v.Status != metav1.ConditionFalse || v.Reason != "DataLossNotAccepted" || !strings.Contains(v.Message, "pg-1 is not ready: has 7 bytes") {
		t.Errorf("got %s %s: %s", v.Status, v.Reason, v.Message)
	}
	if v := primaryReady(wanting(2), &observed{cluster: *seen}); v.Status != metav1.ConditionTrue {
		t.Errorf("got %s %s: %s", v.Status, v.Reason, v.Message)
	}
}

// TestUpdateOfTheSilent holds that an update is not said to be over while an agent does not answer: its server may wait for a
// restart. Of what was in effect before, its silence takes nothing back.
func TestUpdateOfTheSilent(t *testing.T) {
	pg := wanting(2)
	pg.Generation, pg.Status.Timeline = 2, 1
	answers := func(pending ...string) *agentapi.Status {
		return &agentapi.Status{Ready: true, Generation: 2, PendingRestart: pending}
	}
	for i, pass := range []struct {
		primary, replica *agentapi.Status
		ready            metav1.ConditionStatus
	}{
		{nil, answers(), metav1.ConditionUnknown},
		{answers("shared_buffers"), answers("shared_buffers"), metav1.ConditionFalse},
		{nil, answers(), metav1.ConditionUnknown}, // only the replica is known to have been restarted
		{answers("shared_buffers"), answers(), metav1.ConditionFalse},
		{answers(), nil, metav1.ConditionUnknown},
		{answers(), answers(), metav1.ConditionTrue},
		{nil, answers(), metav1.ConditionTrue},
	} {
		seen := &observed{cluster: *picture(2, "P R")}
		seen.cluster.instances[0].status, seen.cluster.instances[1].status = pass.primary, pass.replica
		_, seen.step = next(pg, &seen.cluster)
		setStatus(pg, seen)
		if c := meta.FindStatusCondition(pg.Status.Conditions, fettlev1.Ready); c.Status != pass.ready {
			t.Errorf("pass %d: Ready is %s %s: %s", i, c.Status, c.Reason, c.Message)
		}
	}
}

// TestTakenAway holds that a PostgreSQL with fewer instances is not Ready before the others are gone, which takes a while.
func TestTakenAway(t *testing.T) {
	for words, want := range map[string]string{"P R": "True", "P R R": "False", "P R RT": "False", "P R -": "True"} {
		c := picture(2, words)
		c.instances = slices.DeleteFunc(c.instances, func(i instance) bool { return i.ordinal > 1 && i.pod == nil })
		if got := instancesReady(wanting(2), &observed{cluster: *c}); string(got.Status) != want {
			t.Errorf("%s: %s %s: %s", words, got.Status, got.Reason, got.Message)
		}
	}
}

// TestSwitchoverDeferred holds that it is told why an instance is not made the primary that spec.preferredPrimary names, and that this is
// written once when it begins and once when it ends, whether the agent answers in between or not.
func TestSwitchoverDeferred(t *testing.T) {
	pg := wanting(2)
	pg.Generation, pg.Spec.PreferredPrimary = 2, "pg-1"
	answers := func(distrusts string) *agentapi.Status {
		s := &agentapi.Status{Ready: true, Generation: 2}
		s.Election.TargetOnProbation = distrusts
		return s
	}
	var before metav1.Condition
	for i, pass := range []struct {
		words   string
		primary *agentapi.Status
		reason  string
		changed bool
		change  func()
	}{
		{"P R", answers(""), "PrimaryReady", true, nil},
		{"P R", answers("pg-1"), "SwitchoverDeferred", true, nil},
		{"P R", answers("pg-1"), "SwitchoverDeferred", false, nil},
		{"P R", nil, "SwitchoverDeferred", false, nil},
		{"P R", answers("pg-1"), "SwitchoverDeferred", false, nil},
		{"R P", nil, "PrimaryReady", true, nil},
		{"P R", answers("pg-1"), "SwitchoverDeferred", true, nil},
		{"P R", nil, "PrimaryReady", true, func() { pg.Generation, pg.Spec.PreferredPrimary = 3, "" }},
	} {
		seen := &observed{cluster: *picture(2, pass.words)}
		for j := range seen.cluster.instances {
			if in := &seen.cluster.instances[j]; in.labelled(databasev1alpha1.LabelRolePrimary) {
				in.status = pass.primary
			}
		}
		if pass.change != nil {
			pass.change()
		}
		setStatus(pg, seen)
		c := meta.FindStatusCondition(pg.Status.Conditions, databasev1alpha1.PostgreSQLPrimaryReady)
		if c.Status != metav1.ConditionTrue || c.Reason != pass.reason || (*c != before) != pass.changed {
			t.Errorf("pass %d: %s %s: %s, changed %v", i, c.Status, c.Reason, c.Message, *c != before)
		}
		if waits := c.Reason == "SwitchoverDeferred"; waits != strings.Contains(c.Message, "fettle.dev/switchover=pg-1") {
			t.Errorf("pass %d: it says %q", i, c.Message)
		}
		before = *c
	}
}

// TestReady_whetherClientsAreServed: Ready is True while an instance accepts writes, and names the most important problem either way.
// kstatus learns from two further conditions what only a person can resolve, and what is rolled out.
func TestReady_whetherClientsAreServed(t *testing.T) {
	for name, c := range map[string]struct {
		words   string
		created bool
		change  func(*databasev1alpha1.PostgreSQL, *observed)
		want    string
	}{
		"all is well":                 {"P R", true, nil, "True Ready"},
		"a standby is not ready":      {"P N", true, nil, "True InstanceNotReady"},
		"no primary":                  {"N R", true, nil, "False NoPrimary"},
		"the database does not exist": {"P R", false, func(_ *databasev1alpha1.PostgreSQL, seen *observed) { seen.objectsErr = errors.New("no") }, "Unknown Reconciling"},
		"an update goes on": {"P R!", true, func(pg *databasev1alpha1.PostgreSQL, seen *observed) { _, seen.step = next(pg, &seen.cluster) },
			"True Updating Reconciling"},
		"databases are not known":   {"P R", true, func(_ *databasev1alpha1.PostgreSQL, seen *observed) { seen.objectsErr = errors.New("no") }, "True Reconciling Reconciling"},
		"a parameter is rejected":   {"P R", true, func(_ *databasev1alpha1.PostgreSQL, seen *observed) { seen.parameters = errors.New("no") }, "True ParametersInvalid Stalled"},
		"a Secret is missing":       {"P R", true, func(_ *databasev1alpha1.PostgreSQL, seen *observed) { seen.secretMissing = "a" }, "True SecretMissing"},
		"paused":                    {"P R", true, func(pg *databasev1alpha1.PostgreSQL, _ *observed) { pg.Spec.Paused = true }, "True Paused"},
		"paused, without a primary": {"N R", true, func(pg *databasev1alpha1.PostgreSQL, _ *observed) { pg.Spec.Paused = true }, "False NoPrimary"},
		"blocked":                   {"P R", true, func(_ *databasev1alpha1.PostgreSQL, seen *observed) { seen.applyErr = &apply.ConflictError{} }, "True NameConflict Stalled"},
	} {
		pg := wanting(2)
		pg.Status.Timeline, pg.Status.Phase = 1, databasev1alpha1.PhaseRunning
		if c.created {
			pg.Status.ConnectionString = "postgresql://"
		}
		seen := &observed{cluster: *picture(2, c.words)}
		for i := range seen.cluster.instances {
			if in := &seen.cluster.instances[i]; in.ready() {
				in.status = &agentapi.Status{Ready: true}
			}
		}
		if c.change != nil {
			c.change(pg, seen)
		}
		switch {
		case pg.Spec.Paused:
			setPaused(pg, seen)
		case name == "blocked":
			setBlocked(pg, seen)
		default:
			setStatus(pg, seen)
		}
		ready := meta.FindStatusCondition(pg.Status.Conditions, fettlev1.Ready)
		got := string(ready.Status) + " " + ready.Reason
		for _, kstatus := range []string{fettlev1.Stalled, fettlev1.Reconciling} {
			if meta.IsStatusConditionTrue(pg.Status.Conditions, kstatus) {
				got += " " + kstatus
			}
		}
		if got != c.want || pg.Status.Ready != (ready.Status == metav1.ConditionTrue) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
