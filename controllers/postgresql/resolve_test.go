package postgresql

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

func policy(p databasev1alpha1.AgentUpdatePolicy) func(*databasev1alpha1.PostgreSQL) {
	return func(pg *databasev1alpha1.PostgreSQL) { pg.Spec.AgentUpdatePolicy = p }
}

func upgradeAgent(pg *databasev1alpha1.PostgreSQL) {
	pg.Annotations = map[string]string{databasev1alpha1.AnnotationUpgradeAgent: "true"}
}

// TestAgentImage_byPolicy: new pods get the operator's agent, unless agents are updated by hand alone.
func TestAgentImage_byPolicy(t *testing.T) {
	set := &k8sappsv1.StatefulSet{}
	set.Spec.Template.Annotations = map[string]string{annotationAgentImage: "template"}
	manual := policy(databasev1alpha1.AgentUpdateManual)
	noted := func(pg *databasev1alpha1.PostgreSQL) { pg.Status.AgentImage = "noted" }
	for _, c := range []struct {
		name string
		pg   *databasev1alpha1.PostgreSQL
		set  *k8sappsv1.StatefulSet
		want string
	}{
		{"OnRestart", wanting(1, policy(databasev1alpha1.AgentUpdateOnRestart), noted), set, "own"},
		{"Automatic", wanting(1, policy(databasev1alpha1.AgentUpdateAutomatic), noted), set, "own"},
		{"Manual, new", wanting(1, manual), nil, "own"},
		{"Manual", wanting(1, manual, noted), set, "template"},
		{"Manual, while the StatefulSet is re-created", wanting(1, manual, noted), nil, "noted"},
		{"Manual, upgrade requested", wanting(1, manual, noted, upgradeAgent), set, "own"},
	} {
		if got := agentImage(c.pg, c.set, "own"); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestAgentUpdatePolicy_afterUpgrade: an upgraded operator replaces no pod, unless the policy is Automatic or an upgrade is requested. Then
// it replaces one pod at a time, the primary last.
func TestAgentUpdatePolicy_afterUpgrade(t *testing.T) {
	const all = "pg-2 pg-1 pg-0"
	for name, c := range map[string]struct {
		pg   *databasev1alpha1.PostgreSQL
		want string
	}{
		"OnRestart":            {wanting(3, policy(databasev1alpha1.AgentUpdateOnRestart)), ""},
		"Manual":               {wanting(3, policy(databasev1alpha1.AgentUpdateManual)), ""},
		"Automatic":            {wanting(3, policy(databasev1alpha1.AgentUpdateAutomatic)), all},
		"OnRestart, requested": {wanting(3, policy(databasev1alpha1.AgentUpdateOnRestart), upgradeAgent), all},
		"Manual, requested":    {wanting(3, policy(databasev1alpha1.AgentUpdateManual), upgradeAgent), all},
	} {
		former := map[string]string{annotationRevision: "revision", annotationAgentImage: "former"}
		set := &k8sappsv1.StatefulSet{}
		set.Spec.Template.Annotations = former
		want := podVersion{revision: "revision"}
		image := agentImage(c.pg, set, "own")
		if rollsAgent(c.pg) {
			want.agentImage = image
		}
		seen, versions := picture(3, "P R R"), []map[string]string{former, former, former}
		var replaced []string
		for range 10 {
			for i := range seen.instances {
				in := &seen.instances[i]
				in.pod.Annotations = versions[in.ordinal]
				in.outdated = want.outdated(in.pod.Annotations)
			}
			_, step := next(c.pg, seen)
			switch step.Code {
			case ReplacePod:
				replaced = append(replaced, step.target.name)
				versions[step.target.ordinal] = map[string]string{annotationRevision: "revision", annotationAgentImage: image}
			case RequestSwitchover:
				seen = picture(3, "R P R")
			}
		}
		if got := strings.Join(replaced, " "); got != c.want {
			t.Errorf("%s: replaced %q, want %q", name, got, c.want)
		}
		if count := seen.outdatedAgents("own"); count != 0 == (c.want == all) {
			t.Errorf("%s: %d outdated agents", name, count)
		}
	}
}

// TestWishes_ownersAndMemberships holds that a database without an owner gets the one of spec.databaseName, and that memberships
// which were taken out of the spec are revoked: an empty list says so, and a missing one leaves them alone.
func TestWishes_ownersAndMemberships(t *testing.T) {
	pg := wanting(1)
	pg.Spec.DatabaseName = "app"
	pg.Spec.Roles = []databasev1alpha1.PostgreSQLRole{{Name: "reader", InRoles: []databasev1alpha1.ParentRole{"pg_monitor"}}, {Name: "writer"}}
	pg.Spec.Databases = []databasev1alpha1.PostgreSQLDatabase{{Name: "reports"}, {Name: "archive", Owner: "writer"}}
	d, err := databaseObjects(pg, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	owners := map[string]string{}
	for _, db := range d.Databases {
		owners[db.Name] = db.Owner
	}
	if owners["reports"] != "app" || owners["archive"] != "writer" || owners["app"] != "app" {
		t.Errorf("owners are %v", owners)
	}
	raw, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var sent agentapi.Desired
	if err := json.Unmarshal(raw, &sent); err != nil {
		t.Fatal(err)
	}
	for _, role := range sent.Roles {
		switch role.Name {
		case "reader":
			if len(role.MemberOf) != 1 || role.MemberOf[0] != "pg_monitor" {
				t.Errorf("reader is in %v", role.MemberOf)
			}
		case "writer":
			if role.MemberOf == nil || len(role.MemberOf) > 0 {
				t.Errorf("writer is in %#v: nothing would be revoked", role.MemberOf)
			}
		}
	}
}

// TestTerminating_isNotReady holds that nobody waits for a PostgreSQL that is being deleted.
func TestTerminating_isNotReady(t *testing.T) {
	pg := wanting(1)
	pg.Generation = 3
	pg.Status.Ready, pg.Status.Phase = true, databasev1alpha1.PhaseRunning
	conditions.SetState(pg, fettlev1.Ready, true, conditions.True(fettlev1.Ready, ""))
	conditions.SetTerminating(pg)
	c := meta.FindStatusCondition(pg.Status.Conditions, fettlev1.Ready)
	if pg.Status.Ready || c.Status != metav1.ConditionFalse || c.Reason != fettlev1.ReasonTerminating ||
		c.ObservedGeneration != 3 || pg.Status.ObservedGeneration != 3 || pg.Status.Phase != databasev1alpha1.PhaseTerminating {
		t.Errorf("%+v, %+v", pg.Status, c)
	}
}

// TestAgents_areAskedAgain holds how long an answer is believed: disks fill up, and a pod that nobody has asked may not be ready.
func TestAgents_areAskedAgain(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Now())
	a, pg := newAgents(clock), wanting(1)
	key := types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name}
	answered := func() {
		a.cached[key] = answers{at: clock.Now(), byUID: map[string]agentapi.Status{"pg-0": {}}, queried: map[string]bool{"pg-0": true}}
	}
	// No pod is within reach, so that whoever is asked anew does not answer.
	believed := func() bool { return len(a.statuses(t.Context(), pg, nil, nil, time.Minute)) == 1 }
	answered()
	clock.SetTime(clock.Now().Add(59 * time.Second))
	if !believed() {
		t.Error("an answer of 59 s ago was not believed")
	}
	clock.SetTime(clock.Now().Add(time.Second))
	if believed() {
		t.Error("an answer of a minute ago was believed")
	}
	answered()
	if a.forget(key); believed() {
		t.Error("an answer was believed that was to be forgotten")
	}
}

// TestConfigured_nameOfAnotherSecret holds that somebody else's Secret costs one role its password, and that what is worse is told first.
func TestConfigured_nameOfAnotherSecret(t *testing.T) {
	seen := &observed{at: time.Now(), cluster: *picture(1, "P"), foreignSecrets: []credential{{role: "reader", secret: "pg-role-reader"}}}
	seen.cluster.instances[0].status = &agentapi.Status{Ready: true}
	v := configured(wanting(1), seen, true)
	if v.Status != metav1.ConditionFalse || v.Reason != fettlev1.ReasonNameConflict ||
		!strings.Contains(v.Message, `"pg-role-reader"`) || !strings.Contains(v.Message, "role reader") {
		t.Errorf("%+v", v)
	}
	seen.cluster.instances[0].status.ConfigError = "no"
	if v := configured(wanting(1), seen, true); v.Reason != databasev1alpha1.ReasonParametersInvalid {
		t.Errorf("%+v", v)
	}
}

// TestVolumes_olderThanACopy holds that nobody takes the data of an earlier PostgreSQL for a copy of another server.
func TestVolumes_olderThanACopy(t *testing.T) {
	now := time.Now()
	pg := wanting(1)
	pg.CreationTimestamp = metav1.NewTime(now)
	says := func(age time.Duration) bool {
		seen := picture(1, "P")
		seen.instances[0].claim = claim("1Gi", "1Gi")
		seen.instances[0].claim.CreationTimestamp = metav1.NewTime(now.Add(-age))
		v := volumesReady(pg, seen, growth{}, nil, now)
		if v.Status != metav1.ConditionTrue {
			t.Errorf("%+v", v)
		}
		return strings.Contains(v.Message, "copied nothing")
	}
	if says(time.Hour) {
		t.Error("no copy was asked for")
	}
	pg.Spec.Bootstrap.PgBasebackup = &databasev1alpha1.PostgreSQLPgBasebackup{}
	if says(-time.Second) {
		t.Error("the volume is new")
	}
	if !says(time.Hour) {
		t.Error("nothing tells that old data won")
	}
}
