package rollout

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Known failures of other controllers, each with the issue that reports it. Changes while the controller is down (stakater/Reloader#814, #640)
// and a start that restarts everything (#166, #1089) are rows of TestDecide.

// An upgrade must compute the same hashes; otherwise it would restart everything.
func TestHash_isStable(t *testing.T) {
	objects := []Object{published("1", "x"), {Kind: Secret, Target: "shop-secret", Name: "shop-secret", Exists: true, Data: map[string][]byte{"k": []byte("v")}}}
	w := user(Deployment, "x", references(
		Reference{Kind: ConfigMap, Name: "shop-config", Key: "a"}, Reference{Kind: ConfigMap, Name: "shop-config", Key: "gone", Optional: true},
		Reference{Kind: ConfigMap, Name: "shop-config"}, Reference{Kind: Secret, Name: "shop-secret"},
	))
	for want, objects := range map[string][]Object{
		"b48d55174c4929a10bf69a9f4ca85b5f": objects[:1], "1f8634036e1a81e9a6aca8e0c587359b1a7c9e59": objects,
	} {
		if diff := cmp.Diff(want, hashOf(testKey, theOwner, theOwner.usesOf(w, objects))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// stakater/Reloader#507: a workload is restarted for keys that it does not use.
func TestRestart_onlyUsersOfTheKey(t *testing.T) {
	old, now := published("1", "1"), published("1", "2")
	other := user(Deployment, "b", references(Reference{Kind: ConfigMap, Name: "shop-config", Key: "b"}), recorded(old))
	all := user(Deployment, "c", references(Reference{Kind: ConfigMap, Name: "shop-config"}), recorded(old))
	missing := user(Deployment, "d", references(Reference{Kind: ConfigMap, Name: "shop-config", Key: "new", Optional: true}), recorded(old))
	policy := thePolicy
	policy.MaxConcurrent = 10
	got := decided(start, policy, []Object{now}, user(Deployment, "a", recorded(old)), other, all, missing)
	if diff := cmp.Diff([]string{"b", "c"}, got.Restarts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	now.Data["new"] = []byte{} // present but empty
	got = decided(start, policy, []Object{now}, missing)
	if diff := cmp.Diff([]string{"d"}, got.Restarts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// stakater/Reloader#508: a ConfigMap and a Secret that change together cause two restarts.
func TestRestart_onceForConfigMapAndSecret(t *testing.T) {
	secret := func(v string) Object {
		return Object{Kind: Secret, Target: "s", Name: "s", Exists: true, Data: map[string][]byte{"k": []byte(v)}}
	}
	w := user(Deployment, "x", references(Reference{Kind: ConfigMap, Name: "shop-config"}, Reference{Kind: Secret, Name: "s", Key: "k"}))
	w.records[theKey] = baselineRecord(hashFor(w, published("1", "1"), secret("1")), "", time.Time{}, start.Add(-time.Hour)).String()
	objects := []Object{published("2", "1"), secret("2")}
	if got := decided(start, thePolicy, objects, w); len(got.Restarts) != 1 {
		t.Fatalf("%d restarts, not 1", len(got.Restarts))
	}
	w.templates[theKey] = hashFor(w, objects...)
	w.records[theKey] = restartRecord(w.templates[theKey], start).String()
	if got := decided(start.Add(time.Hour), thePolicy, objects, w); len(got.Restarts) != 0 {
		t.Errorf("%d restarts, not 0", len(got.Restarts))
	}
}

// stakater/Reloader#110: several ConfigMaps that change together cause one restart each.
func TestRestart_forAnotherOwnerCounts(t *testing.T) {
	now := publishedAt(published("2", "1"), start.Add(-10*time.Second))
	for _, tc := range []struct {
		at   time.Time
		want []string
	}{{start.Add(-5 * time.Second), nil}, {start.Add(-8 * time.Second), []string{"x"}}} {
		w := user(Deployment, "x", recorded(published("1", "1")))
		w.records["voting.fettle.dev/poll"], w.templates["voting.fettle.dev/poll"] = restartRecord("h", tc.at).String(), "h"
		got := decided(start, thePolicy, []Object{now}, w)
		if diff := cmp.Diff(tc.want, got.Restarts); diff != "" {
			t.Errorf("restarted at %s (-want +got):\n%s", tc.at, diff)
		}
		if noted := len(got.Records) == 1; noted == (tc.want != nil) {
			t.Errorf("restarted at %s: recorded %v", tc.at, noted)
		}
	}
}

// stakater/Reloader#220, #1183: thousands of changes, concurrent or sequential, are not throttled: 80,000 ReplicaSets.
func TestRestart_throttlesManyChanges(t *testing.T) {
	var workloads []*Workload
	for i := range 3000 {
		workloads = append(workloads, user(Deployment, fmt.Sprintf("w%04d", i), recorded(published("1", "1"))))
	}
	if got := decided(start, thePolicy, []Object{published("2", "1")}, workloads...); len(got.Restarts) != 1 {
		t.Errorf("%d restarts at once", len(got.Restarts))
	}
	w, restarts := user(Deployment, "x", recorded(published("0", "1"))), 0
	for i := range 300 { // one change per second
		now := start.Add(time.Duration(i) * time.Second)
		o := published(fmt.Sprint(i), "1")
		if got := decided(now, Policy{MinInterval: 30 * time.Second}, []Object{o}, w); len(got.Restarts) > 0 {
			restarts++
			rolled(o, now)(w)
		}
	}
	if restarts != 10 {
		t.Errorf("%d restarts within 300 s, not one in 30 s", restarts)
	}
}

// stakater/Reloader#627, #333, #769: the controller and a GitOps tool revert each other's changes forever.
func TestRemovedAnnotations_restartNothing(t *testing.T) {
	old, now := published("1", "1"), published("2", "1")
	for name, change := range map[string]func(*Workload){
		"both are removed":                       func(w *Workload) { delete(w.templates, theKey); delete(w.records, theKey) },
		"the template's is removed":              func(w *Workload) { delete(w.templates, theKey) },
		"the template's is set to the old value": func(w *Workload) { w.templates[theKey] = hashFor(w, old) },
		"the record is removed":                  func(w *Workload) { delete(w.records, theKey) },
		"the record is overwritten":              func(w *Workload) { w.records[theKey] = "{" },
		"the template uses other keys":           references(Reference{Kind: ConfigMap, Name: "shop-config", Key: "b"}),
	} {
		w := user(Deployment, "x", rolled(now, start.Add(-time.Hour)), change)
		got := decided(start, thePolicy, []Object{now}, w)
		if len(got.Restarts) != 0 || got.States["x"] != UpToDate {
			t.Errorf("%s: %+v", name, got)
		}
	}
	// Also if it was created around the publication, unless the operator crashed since.
	w := user(Deployment, "x", changedAt(start.Add(-70*time.Second)))
	late := []Object{publishedAt(now, start.Add(-65*time.Second))}
	for noted, want := range map[time.Time]int{start.Add(-time.Minute): 0, start.Add(-70 * time.Second): 1, {}: 1} {
		if got := decidedWith(lastWrite{recordedAt: noted}, start, thePolicy, late, w); len(got.Restarts) != want {
			t.Errorf("recorded at %s: %+v", noted, got)
		}
	}
	// No more often than MinInterval allows a restart.
	w = user(Deployment, "x", rolled(now, start.Add(-10*time.Second)), func(w *Workload) { delete(w.templates, theKey) })
	if diff := cmp.Diff(20*time.Second, decided(start, thePolicy, []Object{now}, w).RequeueAfter); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Some pods may run contents that were published while a restart was pending. A revert to the recorded contents is therefore a change.
func TestRevert_whileRestartWasPending(t *testing.T) {
	old, now := published("1", "1"), published("2", "1")
	w := user(Deployment, "x", rolled(old, start.Add(-2*time.Hour)))
	p := &evaluation{now: start, owner: theOwner, policy: thePolicy, published: []Object{now}, key: testKey, beforeChange: true}
	plan := p.decide([]*Workload{w}, func(*Workload) lastWrite { return lastWrite{} })
	if len(plan.records) != 1 {
		t.Fatalf("%d records, not 1", len(plan.records))
	}
	w.records[theKey] = plan.records[0].record.String()
	if got := decided(start, thePolicy, []Object{old}, w); !slices.Equal(got.Restarts, []string{"x"}) {
		t.Errorf("restarts %v, not x", got.Restarts)
	}
}
