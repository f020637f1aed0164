package faults

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// checkAll applies the oracles that need no waiting, after the controller has stopped.
func (a *planRun) checkAll() {
	events := a.history.events(a.namespace)
	a.counts, a.writes = counts(events), a.requests.written()
	var when time.Time
	a.fault, when = a.requests.fault()
	a.triggered = !when.IsZero()
	problems, log := a.operator.results()
	a.log = log
	for _, problem := range problems {
		a.violate("O5", "%s", problem)
	}
	a.checkCounts()
	a.checkWrites()
	a.checkOwners(events)
	a.checkGenerations(events)
	a.checkChanges(events)
	if a.plan.Kind == OwnerDeleted {
		a.checkKept(events)
	}
	if a.reference == nil {
		a.checkNoOps()
	}
}

// checkCounts compares how often each object was created, deleted and rolled out (O2).
func (a *planRun) checkCounts() {
	if a.reference == nil || a.plan.Kind.deletes() {
		return
	}
	want := maps.Clone(a.reference.counts)
	if a.plan.Kind == Deleted { // deleted by the plan, and re-created by the controller
		targets := []Key{a.plan.Target}
		if a.scenario.DeletedWith != nil {
			targets = append(targets, a.scenario.DeletedWith(a.reference.state, a.plan.Target)...)
		}
		for _, target := range targets {
			want["delete "+target.String()]++
			want["create "+target.String()]++
		}
	}
	if a.plan.Kind == Changed && strings.HasPrefix(a.plan.Drift.pointer, "/spec/template/") { // changed by the plan, and reverted
		want["rollout "+a.plan.Target.String()] += 2
	}
	if diff := cmp.Diff(want, a.counts); diff != "" {
		a.violate("O2", "objects were created, deleted or rolled out more or less often than without the fault (-want +got):\n%s", diff)
	}
}

// checkWrites finds writes outside the scenario's namespace and kinds (O4).
func (a *planRun) checkWrites() {
	for _, r := range a.writes {
		switch {
		case r.Namespace != a.namespace:
			a.violate("O4", "%s in namespace %q: the object lives in another", r, r.Namespace)
		case !a.follows(Key{Resource: r.Resource}):
			a.violate("O4", "%s: the scenario does not list %s among the children", r, r.Resource.GroupResource())
		}
	}
	if a.reference != nil {
		return
	}
	reported := map[string]bool{}
	for _, r := range a.requests.recorded(func(r Record) bool { return r.Code == http.StatusForbidden }) {
		if !reported[r.String()] {
			a.violate("O4", "%s is forbidden: the operator's role does not grant it", r)
		}
		reported[r.String()] = true
	}
}

// checkOwners requires exactly one controller reference, to an existing object, on each object that the controller created (O4).
func (a *planRun) checkOwners(events []event) {
	if a.plan.Drift.pointer == ownerPointer {
		return // the plan itself removed the owner
	}
	alive := map[types.UID]Key{}
	for _, e := range events {
		alive[e.Object.GetUID()] = e.Key
	}
	for _, e := range events {
		if e.Type == watch.Deleted || !a.owned(e.Key) {
			continue
		}
		owners := slices.DeleteFunc(e.Object.GetOwnerReferences(), func(o metav1.OwnerReference) bool {
			return o.Controller == nil || !*o.Controller
		})
		if len(owners) != 1 {
			a.violate("O4", "%s has %d controllers, it must have one", e.Key, len(owners))
			return
		}
		if owner, known := alive[owners[0].UID]; !known || owner.Name != owners[0].Name {
			a.violate("O4", "%s is controlled by %s with UID %s, which no object in the namespace has", e.Key, owners[0].Name, owners[0].UID)
			return
		}
	}
}

// owned reports whether an object must have a controller.
func (a *planRun) owned(key Key) bool {
	unowned := a.scenario.Unowned != nil && a.scenario.Unowned(key)
	return key.Resource != a.scenario.Primary && !a.user.made[key] && !unowned
}

// checkGenerations checks the status of the custom resources in all their versions (O4).
func (a *planRun) checkGenerations(events []event) {
	for _, e := range events {
		if e.Key.Resource != a.scenario.Primary || e.Type == watch.Deleted {
			continue
		}
		ready, observed := readyOf(e.Object)
		if observed > e.Object.GetGeneration() {
			a.violate("O4", "%s: observedGeneration %d is ahead of generation %d", e.Key, observed, e.Object.GetGeneration())
		}
		if e.Before == nil || e.Before.GetUID() != e.Object.GetUID() {
			continue
		}
		if _, before := readyOf(e.Before); observed < before {
			a.violate("O4", "%s: observedGeneration went back from %d to %d", e.Key, before, observed)
		}
		// A new spec makes an old Ready=True outdated, which is allowed; writing an outdated one is not.
		if ready == "True" && observed != e.Object.GetGeneration() && !sameStatus(e.Before, e.Object) {
			a.violate("O4", "%s: Ready=True was written for generation %d while generation %d existed", e.Key, observed, e.Object.GetGeneration())
		}
	}
}

// checkChanges checks each object in all its versions, by the scenario's own rules (O4). They assume that the user deletes nothing.
func (a *planRun) checkChanges(events []event) {
	if a.plan.Kind.deletes() {
		return
	}
	if drifts := a.plan.Kind == Deleted || a.plan.Kind == Changed; a.scenario.History != nil && !drifts {
		if err := a.scenario.History(events); err != nil {
			a.violate("O4", "%v", err)
		}
	}
	if a.scenario.InvalidChange == nil {
		return
	}
	for _, e := range events {
		if e.Type != watch.Modified || e.Before == nil || e.Key == a.plan.Target {
			continue
		}
		if err := a.scenario.InvalidChange(e.Before, e.Object); err != nil {
			a.violate("O4", "%s: %v", e.Key, err)
		}
	}
}

func sameStatus(a, b *unstructured.Unstructured) bool {
	return apiequality.Semantic.DeepEqual(a.Object["status"], b.Object["status"])
}

// checkNoOps finds redundant writes of a fault-free run: the response has a version that existed before, or that another write created
// (O3).
func (a *planRun) checkNoOps() {
	led := map[string]int{}
	for version, n := range a.user.rvs {
		led[version] += n
	}
	for _, r := range a.writes {
		if r.RV == "" || r.Code >= 400 || r.Verb == "delete" {
			continue
		}
		if led[r.RV]++; led[r.RV] > 1 || r.RV == r.Before {
			a.violate("O3", "%s (write %d) changed nothing", r, r.K)
		}
	}
}
