package faults

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// TestDeletions requires a plan for each write of the step, each on another day.
func TestDeletions(t *testing.T) {
	write := func(step int, name string) Record {
		return Record{Verb: "create", Resource: configMaps, Name: name, Step: step, Write: true}
	}
	plans := deletions([]Record{write(0, "a"), write(1, "a"), write(1, "b"), write(1, "b"), write(2, "b")}, OwnerDeleted, 1)
	days := map[string]bool{}
	for day := range len(plans) {
		for _, p := range plansOfDay(plans, day, len(plans)) {
			days[p.ID()] = true
		}
	}
	if len(plans) != 3 || !days["F13@2"] || !days["F13@3"] || !days["F13@4"] || plans[2].Nth != 2 {
		t.Errorf("the days have the plans %v of %+v", days, plans)
	}
}

func TestLeftovers(t *testing.T) {
	parent, child, mine := Key{demos, "shop"}, Key{configMaps, "shop-a"}, Key{deployments, "mine"}
	object := func(uid, owner types.UID, annotation string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetUID(uid)
		if owner != "" {
			o.SetOwnerReferences([]metav1.OwnerReference{{UID: owner}})
		}
		if annotation != "" {
			o.SetAnnotations(map[string]string{annotation: "x"})
		}
		return o
	}
	for name, c := range map[string]struct {
		left  map[Key]*unstructured.Unstructured
		kept  bool // the child
		wrong bool
	}{
		"nothing":                           {nil, false, false},
		"the object":                        {map[Key]*unstructured.Unstructured{parent: object("1", "", "")}, false, true},
		"a child":                           {map[Key]*unstructured.Unstructured{child: object("2", "1", "")}, false, true},
		"an object without an owner":        {map[Key]*unstructured.Unstructured{child: object("2", "", "")}, false, true},
		"what is kept":                      {map[Key]*unstructured.Unstructured{child: object("2", "", "")}, true, false},
		"the child of another object":       {map[Key]*unstructured.Unstructured{child: object("2", "3", ""), mine: object("3", "", "")}, false, false},
		"a workload of the user":            {map[Key]*unstructured.Unstructured{mine: object("3", "", "example.com/a")}, false, false},
		"a workload with an old annotation": {map[Key]*unstructured.Unstructured{mine: object("3", "", "config.fettle.dev/shop")}, false, true},
	} {
		scenario := &Scenario{Deletion: &Deletion{Object: parent, Kept: func(k Key) bool { return c.kept && k == child }}}
		run := &planRun{fixture: &fixture{scenario: scenario}, user: &user{made: map[Key]bool{parent: true, mine: true}}}
		if err := run.leftovers(View{objects: c.left}); (err != nil) != c.wrong {
			t.Errorf("%s: %v", name, err)
		}
	}
}
