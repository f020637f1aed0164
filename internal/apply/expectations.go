package apply

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
)

// cacheSyncTimeout bounds how long an object waits for the cache to show its last write. A watch that is further behind is broken, and so
// is one whose versions went back (a restored etcd).
const cacheSyncTimeout = 30 * time.Second

// ObjectID names an object of any kind.
type ObjectID struct {
	schema.GroupVersionKind
	types.NamespacedName
}

// cacheState is the cache's state of an object. The zero value is an absent object in a cache without a store version.
type cacheState struct {
	// uid and version belong to the cached copy; "" if there is none.
	uid     types.UID
	version string
	// store is the version of the whole store, read before the copy.
	store string
}

// write is the last write to an object.
type write struct {
	scope   types.NamespacedName
	uid     types.UID
	version string
	deleted bool
	at      time.Time
}

// Expectations remembers the last write to each object for as long as the cache may not show it. Losing it does no harm. It is safe for
// concurrent use.
type Expectations struct {
	clock clock.PassiveClock

	mu        sync.Mutex
	writes    map[ObjectID]write
	lastSwept time.Time
}

// NewExpectations returns Expectations without writes.
func NewExpectations(c clock.PassiveClock) *Expectations {
	return &Expectations{clock: c, writes: map[ObjectID]write{}, lastSwept: c.Now()}
}

// Wrote records that id now has the given uid and version. The scope is for [Expectations.Recent].
func (m *Expectations) Wrote(scope types.NamespacedName, id ObjectID, uid types.UID, version string) {
	m.record(id, write{scope: scope, uid: uid, version: version})
}

// deleted records that the object with that uid was deleted.
func (m *Expectations) deleted(id ObjectID, uid types.UID) {
	m.record(id, write{uid: uid, deleted: true})
}

func (m *Expectations) record(id ObjectID, w write) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w.at = m.clock.Now()
	m.writes[id] = w
	if w.at.Sub(m.lastSwept) < cacheSyncTimeout {
		return
	}
	m.lastSwept = w.at
	for other, o := range m.writes {
		if w.at.Sub(o.at) >= cacheSyncTimeout {
			delete(m.writes, other)
		}
	}
}

// pending reports whether the cache may not show a recorded write to id yet.
func (m *Expectations) pending(id ObjectID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.writes[id]
	return ok
}

// Recent returns the objects of a scope whose last write the cache may not show yet.
func (m *Expectations) Recent(scope types.NamespacedName) []ObjectID {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ids []ObjectID
	for id, w := range m.writes {
		if w.scope == scope && !w.deleted {
			ids = append(ids, id)
		}
	}
	return ids
}

// Current reports whether the cached copy of id with that uid and version is at least as new as the last write.
func (m *Expectations) Current(id ObjectID, uid types.UID, version string) bool {
	return m.current(id, cacheState{uid: uid, version: version})
}

func (m *Expectations) current(id ObjectID, s cacheState) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	w, ok := m.writes[id]
	return !ok || m.clock.Since(w.at) >= cacheSyncTimeout || w.shownBy(s)
}

// shownBy reports whether a cache in state s has seen w.
func (w write) shownBy(s cacheState) bool {
	switch {
	case w.deleted:
		return s.uid != w.uid
	case s.uid != "":
		return !older(s.version, w.version)
	default:
		// Absent from a store that is past the write: deleted since. Without a store version the answer is true as well, because the object
		// might never come back.
		return s.store == "" || !older(s.store, w.version)
	}
}

// older reports whether version a is known to precede b.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
