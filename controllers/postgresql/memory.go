package postgresql

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

const (
	// stepAgain is when a step is taken again that the cache does not show yet, or that had no effect.
	stepAgain = 10 * time.Second
	// restartAgain is when a server is restarted again that still says it needs it: what it says may be from before.
	restartAgain = 30 * time.Second
	// refusedAgain is when PostgreSQL is told again of what it refused.
	refusedAgain = time.Minute
	// slowReplay is how long replicas may take to replay a new password before status tells of it.
	slowReplay = 30 * time.Second
	// leaseAgain is how often the Lease is looked at while no instance takes writes.
	leaseAgain = 5 * time.Second
)

// memory keeps a controller that is woken often from doing the same thing each time. Losing it costs a repetition, nothing
// more. It is safe for concurrent use.
type memory struct {
	clock clock.PassiveClock

	mu   sync.Mutex
	done map[types.NamespacedName]map[string]time.Time
	no   map[types.NamespacedName]refusal
	yes  map[types.NamespacedName]telling
	like map[types.NamespacedName]likeness
}

// telling is when the primary was told of wishes with a hash, and where its log ended then.
type telling struct {
	hash     string
	at       time.Time
	inserted wal.LSN
}

// likeness is a hash of wishes that changed nothing where those with the hash in status had been told.
type likeness struct{ hash, recorded string }

// refusal is what PostgreSQL said to wishes with a hash.
type refusal struct {
	hash, message string
	at            time.Time
}

func newMemory(c clock.PassiveClock) *memory {
	return &memory{
		clock: c, done: map[types.NamespacedName]map[string]time.Time{}, no: map[types.NamespacedName]refusal{},
		yes: map[types.NamespacedName]telling{}, like: map[types.NamespacedName]likeness{},
	}
}

// due reports whether what was not done for the time again, and notes that it is done now. It forgets what else was done.
func (m *memory) due(key types.NamespacedName, what string, again time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	if at, ok := m.done[key][what]; ok && now.Sub(at) < again {
		return false
	}
	if m.done[key] == nil {
		m.done[key] = map[string]time.Time{}
	}
	for old, at := range m.done[key] {
		if now.Sub(at) >= max(again, restartAgain) {
			delete(m.done[key], old)
		}
	}
	m.done[key][what] = now
	return true
}

// undo notes that what was due was not done.
func (m *memory) undo(key types.NamespacedName, what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.done[key], what)
}

// refuse notes a refusal.
func (m *memory) refuse(key types.NamespacedName, hash, message string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.no[key] = refusal{hash, message, m.clock.Now()}
}

// refused returns what was refused of the same wishes a short while ago.
func (m *memory) refused(key types.NamespacedName, hash string) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.no[key]
	return r.message, ok && r.hash == hash && m.clock.Since(r.at) < refusedAgain
}

// tell notes that the primary has what it was told.
func (m *memory) tell(key types.NamespacedName, hash string, inserted wal.LSN) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.yes[key] = telling{hash, m.clock.Now(), inserted}
}

// told returns when it was told of these wishes.
func (m *memory) told(key types.NamespacedName, hash string) (telling, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.yes[key]
	return t, t.hash == hash
}

// alike notes that wishes with a hash ask for no more than those which status says were told.
func (m *memory) alike(key types.NamespacedName, hash, recorded string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.like[key] = likeness{hash, recorded}
}

// settled is what status says was told where that is known to be alike, else the hash itself.
func (m *memory) settled(key types.NamespacedName, hash, recorded string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.like[key] == (likeness{hash, recorded}) {
		return recorded
	}
	return hash
}

// forget drops what is known of a PostgreSQL that is gone.
func (m *memory) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.done, key)
	delete(m.no, key)
	delete(m.yes, key)
	delete(m.like, key)
}
