package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestMasks limits the list of masks.
func TestMasks(t *testing.T) {
	if len(masks) > 15 {
		t.Errorf("%d masks, at most 15", len(masks))
	}
	allowed := []string{"spec.clusterIP", "spec.clusterIPs", "spec.ports.[].nodePort"}
	for _, m := range masks {
		path := strings.Join(m.path, ".")
		if m.path[0] != "metadata" && m.path[0] != "status" && !slices.Contains(allowed, path) {
			t.Errorf("%s is decided by the controller and must be compared", path)
		}
	}
	if got := splitPath("metadata.annotations[fettle.dev/applied-hash]"); !slices.Equal(got, []string{"metadata", "annotations", "fettle.dev/applied-hash"}) {
		t.Errorf("split into %q", got)
	}
}

func TestDump_comparesPresenceOfTimes(t *testing.T) {
	state := func(annotation string) View {
		object := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"uid": "uid-1", "annotations": map[string]any{"at": annotation}}}}
		return View{objects: map[Key]*unstructured.Unstructured{{corev1.SchemeGroupVersion.WithResource("configmaps"), "a"}: object}}
	}
	one := dump(state(`{"hash":"1","at":"2026-11-20T17:00:00Z"}`), "n-1", None)
	for annotation, equal := range map[string]bool{
		`{"hash":"1","at":"2027-01-02T03:04:05.678Z"}`: true, `{"hash":"2","at":"2026-11-20T17:00:00Z"}`: false, `{"hash":"1"}`: false,
	} {
		if diff := difference(one, dump(state(annotation), "n-2", None)); (diff == "") != equal {
			t.Errorf("%s: equal %v:\n%s", annotation, diff == "", diff)
		}
	}
}

// TestPlans_coverAllAnswers requires that the short selection answers each write in every possible way within ten days, and that IDs are unique.
func TestPlans_coverAllAnswers(t *testing.T) {
	maps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	trace := []Record{{Verb: "apply", Resource: maps, Name: "a", Write: true}, {Verb: "apply", Resource: maps, Name: "b", Write: true}, {Verb: "patch", Resource: demos, Sub: "status", Write: true}}
	child := Key{maps, "a"}
	for name, s := range map[string]selection{"short": shortRun, "full": fullRun} {
		once, held := map[string]bool{}, map[string]bool{}
		for s.day = range len(answers) {
			plans := s.plans(trace, []Key{child}, map[Key][]drift{child: {{pointer: "/data/a", value: "1"}, {pointer: "/data/b", value: "2"}}})
			ids := map[string]bool{}
			for _, p := range plans {
				if p.Kind == Reply {
					once[fmt.Sprint(p.Write, p.Answer.name)] = true
				}
				held[p.Answer.name] = held[p.Answer.name] || p.Kind == HeldReply
				if ids[p.ID()] {
					t.Errorf("%s: two plans %s", name, p.ID())
				}
				ids[p.ID()] = true
			}
		}
		for _, a := range answers {
			for i, record := range trace {
				if once[fmt.Sprint(i+1, a.name)] != a.possible(record) {
					t.Errorf("%s: write %d is answered with %s: %v", name, i+1, a.name, a.possible(record))
				}
			}
			if held[a.name] != a.holdable {
				t.Errorf("%s: answer %s: held %v", name, a.name, held[a.name])
			}
		}
	}
}

// TestIsTarget_otherOrder has a run whose first step writes a status once more than the reference run, and changes the order of two writes.
func TestIsTarget_otherOrder(t *testing.T) {
	maps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	write := func(step int, name, sub string) Record {
		return Record{Verb: "apply", Resource: maps, Name: name, Sub: sub, Step: step, Write: true}
	}
	reference := []Record{write(0, "a", ""), write(0, "a", "status"), write(1, "a", ""), write(1, "b", ""), write(1, "a", ""), write(1, "a", "status")}
	run := []Record{write(0, "a", ""), write(0, "a", "status"), write(0, "a", "status"), write(1, "b", ""), write(1, "a", ""), write(1, "a", ""), write(1, "a", "status")}
	for i, at := range map[int]int{0: 0, 1: 1, 2: 4, 3: 3, 4: 5, 5: 6} {
		requests := &requestLog{plan: planAt(reference, i, CrashBefore, answer{})}
		var hits []int
		for k, r := range run {
			if requests.isTarget(r) {
				hits = append(hits, k)
			}
			requests.records = append(requests.records, r)
		}
		if !slices.Equal(hits, []int{at}) {
			t.Errorf("the plan for write %d hits %v, want %d", i, hits, at)
		}
	}
}
