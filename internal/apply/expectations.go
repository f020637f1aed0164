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
	// cacheSyncTimeout bounds how long an object waits for the cache to show its last write. A watch that is further behind is broken, and
	// so is one whose versions went back (a restored etcd).
	cacheSyncTimeout = 30 * time.Second
	// maxMutations bounds how many objects are remembered whose fields admission mutates. Forgetting one costs a redundant write.
	maxMutations = 4096
)

// objectID names an object of any kind.
type objectID struct {
	kind schema.GroupKind
	name types.NamespacedName
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
	owner   types.NamespacedName
	uid     types.UID
	version string
	deleted bool
	at      time.Time
}

// mutation lists the fields that the API server did not store as applied.
type mutation struct {
	owner types.NamespacedName
	hash  string
	paths map[string]bool
}

// expectations holds the last write to each object until the cache shows it, and the fields that admission mutates. Losing it does no harm.
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

// wrote records that id now has the given uid and version.
func (m *expectations) wrote(owner types.NamespacedName, id objectID, uid types.UID, version string) {
	m.record(id, write{owner: owner, uid: uid, version: version})
}

// deleted records that the object with that uid was deleted.
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

// pending reports whether the cache may not show a recorded write to id yet.
func (m *expectations) pending(id objectID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.writes[id]
	return ok
}

// current reports whether s is at least as new as the last write to id. If so, it forgets the write.
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

// recordMutation records the paths at which the API server stored different values than were applied with that hash. No paths means that it
// stored all values.
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

// alwaysMutated reports whether applying the object with that hash is known to change none of the paths.
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

// forget drops all records of the owner and of its objects.
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
