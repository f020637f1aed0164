package postgresql

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

const (
	// stepRetry is when a step is taken again that the cache does not show yet, or that had no effect.
	stepRetry = 10 * time.Second
	// restartRetry is when a server is restarted again that still says it needs it: what it says may be from before.
	restartRetry = 30 * time.Second
	// rejectedRetry is when PostgreSQL is told again of what it refused.
	rejectedRetry = time.Minute
	// slowReplay is how long replicas may take to replay a new password before status tells of it.
	slowReplay = 30 * time.Second
	// leaseInterval is how often the Lease is looked at while no instance takes writes.
	leaseInterval = 5 * time.Second
)

// history keeps a controller that is woken often from doing the same thing each time. Losing it costs a repetition, nothing
// more. It is safe for concurrent use.
type history struct {
	clock clock.PassiveClock

	mu          sync.Mutex
	steps       map[types.NamespacedName]map[string]time.Time
	rejections  map[types.NamespacedName]rejection
	lastApplied map[types.NamespacedName]appliedObjects
	equivalents map[types.NamespacedName]equivalence
}

// appliedObjects is when the primary was told of wishes with a hash, and where its log ended then.
type appliedObjects struct {
	hash     string
	at       time.Time
	inserted wal.LSN
}

// equivalence is a hash of wishes that changed nothing where those with the hash in status had been told.
type equivalence struct{ hash, recorded string }

// rejection is what PostgreSQL said to wishes with a hash.
type rejection struct {
	hash, message string
	at            time.Time
}

func newHistory(c clock.PassiveClock) *history {
	return &history{
		clock: c, steps: map[types.NamespacedName]map[string]time.Time{}, rejections: map[types.NamespacedName]rejection{},
		lastApplied: map[types.NamespacedName]appliedObjects{}, equivalents: map[types.NamespacedName]equivalence{},
	}
}

// due reports whether what was not done for the time again, and notes that it is done now. It forgets what else was done.
func (m *history) due(key types.NamespacedName, what string, again time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	if at, ok := m.steps[key][what]; ok && now.Sub(at) < again {
		return false
	}
	if m.steps[key] == nil {
		m.steps[key] = map[string]time.Time{}
	}
	for old, at := range m.steps[key] {
		if now.Sub(at) >= max(again, restartRetry) {
			delete(m.steps[key], old)
		}
	}
	m.steps[key][what] = now
	return true
}

// undo notes that what was due was not done.
func (m *history) undo(key types.NamespacedName, what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.steps[key], what)
}

// recordRejection notes a refusal.
func (m *history) recordRejection(key types.NamespacedName, hash, message string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rejections[key] = rejection{hash, message, m.clock.Now()}
}

// rejected returns what was refused of the same wishes a short while ago.
func (m *history) rejected(key types.NamespacedName, hash string) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.rejections[key]
	return r.message, ok && r.hash == hash && m.clock.Since(r.at) < rejectedRetry
}

// recordApplied notes that the primary has what it was told.
func (m *history) recordApplied(key types.NamespacedName, hash string, inserted wal.LSN) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lastApplied[key] = appliedObjects{hash, m.clock.Now(), inserted}
}

// applied returns when it was told of these wishes.
func (m *history) applied(key types.NamespacedName, hash string) (appliedObjects, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.lastApplied[key]
	return t, t.hash == hash
}

// recordEquivalent notes that wishes with a hash ask for no more than those which status says were told.
func (m *history) recordEquivalent(key types.NamespacedName, hash, recorded string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.equivalents[key] = equivalence{hash, recorded}
}

// recordedHash is what status says was told where that is known to be alike, else the hash itself.
func (m *history) recordedHash(key types.NamespacedName, hash, recorded string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.equivalents[key] == (equivalence{hash, recorded}) {
		return recorded
	}
	return hash
}

// forget drops what is known of a PostgreSQL that is gone.
func (m *history) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.steps, key)
	delete(m.rejections, key)
	delete(m.lastApplied, key)
	delete(m.equivalents, key)
}
