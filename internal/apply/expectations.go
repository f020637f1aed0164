package apply

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
)

const (
	// cacheSyncTimeout bounds how long an object waits for the cache to show its last write. A watch
	// that is further behind is broken, and so is one whose versions went back (a restored etcd).
	cacheSyncTimeout = 30 * time.Second
	// maxMutations bounds how many objects are remembered that admission changes as they are
	// written. Forgetting one costs a write without effect.
	maxMutations = 4096
)

// objectID names an object of any kind.
type objectID struct {
	kind schema.GroupKind
	name types.NamespacedName
}

// cacheState is what the cache knows about an object. The zero value is an absent object in a
// cache that does not tell how far it has come.
type cacheState struct {
	// uid and version are those of the cached copy; "" when there is none.
	uid     types.UID
	version string
	// store is the version that the whole store has reached, read before the copy was looked up.
	store string
}

// write is the last write to an object.
type write struct {
	owner   types.NamespacedName
	uid     types.UID
	version string
	deleted bool
	at      time.Time
}

// mutation is what the API server did not store as it was applied.
type mutation struct {
	owner types.NamespacedName
	hash  string
	paths map[string]bool
}

// expectations holds what an Applier knows and the cache does not: the last write to each object
// until the cache shows it, and what admission insists on. Losing it never does harm.
type expectations struct {
	clock clock.PassiveClock

	mu         sync.Mutex
	writes     map[objectID]write
	mutated    map[objectID]mutation
	lastSwept  time.Time
	sweepEvery time.Duration
}

func newExpectations(c clock.PassiveClock) *expectations {
	return &expectations{
		clock:      c,
		writes:     map[objectID]write{},
		mutated:    map[objectID]mutation{},
		lastSwept:  c.Now(),
		sweepEvery: cacheSyncTimeout,
	}
}

// wrote remembers that id now has the given uid and version.
func (m *expectations) wrote(owner types.NamespacedName, id objectID, uid types.UID, version string) {
	m.record(id, write{owner: owner, uid: uid, version: version})
}

// deleted remembers that the object with that uid was deleted.
func (m *expectations) deleted(owner types.NamespacedName, id objectID, uid types.UID) {
	m.record(id, write{owner: owner, uid: uid, deleted: true})
}

func (m *expectations) record(id objectID, w write) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w.at = m.clock.Now()
	m.writes[id] = w
	if w.at.Sub(m.lastSwept) < m.sweepEvery {
		return
	}
	m.lastSwept = w.at
	for other, o := range m.writes {
		if w.at.Sub(o.at) >= cacheSyncTimeout {
			delete(m.writes, other)
		}
	}
}

// pending reports whether a write to id is remembered that the cache may not show yet.
func (m *expectations) pending(id objectID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.writes[id]
	return ok
}

// current reports whether s is at least as new as the last write to id, and forgets that write
// if so.
func (m *expectations) current(id objectID, s cacheState) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	w, ok := m.writes[id]
	if !ok {
		return true
	}
	if m.clock.Since(w.at) < cacheSyncTimeout && !w.shownBy(s) {
		return false
	}
	delete(m.writes, id)
	return true
}

// shownBy reports whether a cache that shows s has seen w.
func (w write) shownBy(s cacheState) bool {
	switch {
	case w.deleted:
		return s.uid != w.uid
	case s.uid != "":
		return !older(s.version, w.version)
	default:
		// Absent from a store that has passed the write: deleted since. A store that does not
		// tell how far it has come can't hold the object back, or it might never come back.
		return s.store == "" || !older(s.store, w.version)
	}
}

// older reports whether version a is known to come before b.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// recordMutation remembers the paths at which the API server stored something else than what was
// applied with that hash; no paths: it stored everything.
func (m *expectations) recordMutation(owner types.NamespacedName, id objectID, hash string, paths []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.mutated, id)
	if len(paths) == 0 {
		return
	}
	if len(m.mutated) >= maxMutations {
		for other := range m.mutated {
			delete(m.mutated, other)
			break
		}
	}
	set := make(map[string]bool, len(paths))
	for _, p := range paths {
		set[p] = true
	}
	m.mutated[id] = mutation{owner: owner, hash: hash, paths: set}
}

// alwaysMutated reports whether applying the object with that hash is known not to change any of
// the paths.
func (m *expectations) alwaysMutated(id objectID, hash string, paths []string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.mutated[id]
	if !ok || o.hash != hash {
		return false
	}
	for _, p := range paths {
		if !o.paths[p] {
			return false
		}
	}
	return true
}

// forget drops everything about the owner's objects and about the owner itself.
func (m *expectations) forget(owner types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, w := range m.writes {
		if w.owner == owner {
			delete(m.writes, id)
		}
	}
	for id, o := range m.mutated {
		if o.owner == owner {
			delete(m.mutated, id)
		}
	}
}
