package apply

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

func testID(name string) ObjectID {
	return ObjectID{
		schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, types.NamespacedName{Namespace: testNamespace, Name: name},
	}
}

func newTestExpectations() (*Expectations, *clocktesting.FakePassiveClock) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	return NewExpectations(clock), clock
}

func TestExpectations_current(t *testing.T) {
	written := write{uid: "u", version: "100"}
	deleted := write{uid: "u", deleted: true}
	for _, tc := range []struct {
		name string
		last write
		seen cacheState
		want bool
	}{
		{"older", written, cacheState{uid: "u", version: "99"}, false},
		{"older, with fewer digits", write{uid: "u", version: "1000"}, cacheState{uid: "u", version: "999"}, false},
		{"the same", written, cacheState{uid: "u", version: "100"}, true},
		{"newer", written, cacheState{uid: "u", version: "101"}, true},
		{"newer, with more digits", written, cacheState{uid: "u", version: "1000"}, true},
		{"the previous one", written, cacheState{uid: "t", version: "99"}, false},
		{"the next one", written, cacheState{uid: "v", version: "101"}, true},
		{"absent from an older store", written, cacheState{store: "99"}, false},
		{"absent from a store of that version", written, cacheState{store: "100"}, true},
		{"absent from a newer store", written, cacheState{store: "101"}, true},
		{"absent from a store without a version", written, cacheState{}, true},
		{"a version that is not a number", written, cacheState{uid: "u", version: "abc"}, true},
		{"deleted, still there", deleted, cacheState{uid: "u", version: "101"}, false},
		{"deleted and gone", deleted, cacheState{store: "1"}, true},
		{"deleted, and re-created", deleted, cacheState{uid: "v", version: "99"}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, _ := newTestExpectations()
			m.record(testID("web"), tc.last)
			if got := m.current(testID("web"), tc.seen); got != tc.want {
				t.Fatalf("current: %v, want %v", got, tc.want)
			}
			if !m.current(testID("other"), tc.seen) {
				t.Error("an object that was never written is not current")
			}
		})
	}
}

func TestExpectations_timeout(t *testing.T) {
	m, clock := newTestExpectations()
	m.Wrote(types.NamespacedName{}, testID("web"), "u", "100")
	clock.SetTime(clock.Now().Add(cacheSyncTimeout - time.Second))
	if m.current(testID("web"), cacheState{uid: "u", version: "99"}) {
		t.Error("the timeout passes too early")
	}
	clock.SetTime(clock.Now().Add(time.Second))
	if !m.current(testID("web"), cacheState{uid: "u", version: "99"}) {
		t.Error("the timeout never passes")
	}
}

func TestExpectations_areBounded(t *testing.T) {
	m, clock := newTestExpectations()
	mutated := newMutations()
	const perSecond = 20
	for s := range 500 {
		for i := range perSecond {
			name := fmt.Sprintf("%d-%d", s, i)
			m.Wrote(types.NamespacedName{}, testID(name), "u", "1")
			mutated.record(testID(name), "h", []string{"/spec"})
		}
		clock.SetTime(clock.Now().Add(time.Second))
	}
	if bound := 2 * perSecond * int(cacheSyncTimeout/time.Second); len(m.writes) > bound {
		t.Errorf("%d writes are remembered, want at most %d", len(m.writes), bound)
	}
	if got := mutated.byID.Len(); got > maxMutations {
		t.Errorf("%d objects are remembered as mutated, want at most %d", got, maxMutations)
	}
}

func TestMutations(t *testing.T) {
	m := newMutations()
	m.record(testID("web"), "h", []string{"/a", "/b"})
	for _, tc := range []struct {
		name  string
		id    ObjectID
		hash  string
		paths []string
		want  bool
	}{
		{"the same paths", testID("web"), "h", []string{"/a", "/b"}, true},
		{"fewer", testID("web"), "h", []string{"/b"}, true},
		{"more", testID("web"), "h", []string{"/a", "/b", "/c"}, false},
		{"another desired object", testID("web"), "i", []string{"/a"}, false},
		{"another object", testID("other"), "h", []string{"/a"}, false},
	} {
		if got := m.always(tc.id, tc.hash, tc.paths); got != tc.want {
			t.Errorf("%s: always mutated %v, want %v", tc.name, got, tc.want)
		}
	}
	m.record(testID("web"), "h", nil)
	if m.always(testID("web"), "h", []string{"/a"}) {
		t.Error("still always mutated after a write that was stored as applied")
	}
}

func TestExpectations_recent(t *testing.T) {
	m, _ := newTestExpectations()
	ours, other := types.NamespacedName{Name: "ours"}, types.NamespacedName{Name: "other"}
	m.Wrote(ours, testID("web"), "u", "1")
	m.Wrote(other, testID("theirs"), "u", "1")
	m.deleted(testID("gone"), "u")
	if diff := cmp.Diff([]ObjectID{testID("web")}, m.Recent(ours)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
