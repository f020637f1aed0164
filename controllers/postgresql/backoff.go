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
	// rejectedRetry is when objects that PostgreSQL rejected are sent again.
	rejectedRetry = time.Minute
	// slowReplay is how long replicas may take to replay a new password before status tells of it.
	slowReplay = 30 * time.Second
	// leaseInterval is how often the Lease is checked while there is no primary.
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
}

// appliedObjects is when the objects with a hash were applied, and where the WAL of the primary ended then.
type appliedObjects struct {
	hash     string
	at       time.Time
	inserted wal.LSN
}

// rejection is the error of PostgreSQL about objects with a hash.
type rejection struct {
	hash, message string
	at            time.Time
}

func newHistory(c clock.PassiveClock) *history {
	return &history{
		clock: c, steps: map[types.NamespacedName]map[string]time.Time{}, rejections: map[types.NamespacedName]rejection{},
		lastApplied: map[types.NamespacedName]appliedObjects{},
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

// rejected returns what PostgreSQL rejected of the same objects recently.
func (m *history) rejected(key types.NamespacedName, hash string) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.rejections[key]
	return r.message, ok && r.hash == hash && m.clock.Since(r.at) < rejectedRetry
}

// recordApplied notes that the primary has applied the objects with this hash.
func (m *history) recordApplied(key types.NamespacedName, hash string, inserted wal.LSN) appliedObjects {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lastApplied[key] = appliedObjects{hash, m.clock.Now(), inserted}
	return m.lastApplied[key]
}

// applied returns when these objects were applied.
func (m *history) applied(key types.NamespacedName, hash string) (appliedObjects, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.lastApplied[key]
	return t, t.hash == hash
}

// forget drops what is known of a PostgreSQL that is gone.
func (m *history) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.steps, key)
	delete(m.rejections, key)
	delete(m.lastApplied, key)
}

// applyBackoff delays the next attempt to send databases and roles to a primary, by twice the time that the failed one took: a primary
// whose commits wait for lost standbys would occupy a worker. After an error that came at once it retries at once. Losing it costs a repetition. It is safe for concurrent use.
type applyBackoff struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	until map[types.NamespacedName]backoffEntry
}

// backoffEntry is why objects with a hash could not be sent, and when they are sent again.
type backoffEntry struct {
	hash string
	err  error
	at   time.Time
}

func newApplyBackoff(c clock.PassiveClock) *applyBackoff {
	return &applyBackoff{clock: c, until: map[types.NamespacedName]backoffEntry{}}
}

// record notes how long an attempt took and its error; nil resets the back-off.
func (l *applyBackoff) record(key types.NamespacedName, hash string, err error, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		delete(l.until, key)
		return
	}
	l.until[key] = backoffEntry{hash, err, l.clock.Now().Add(2 * took)}
}

// err is why these objects are not sent now; nil if they are.
func (l *applyBackoff) err(key types.NamespacedName, hash string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, ok := l.until[key]; ok && known.hash == hash && l.clock.Now().Before(known.at) {
		return known.err
	}
	return nil
}

// forget drops what is known of a PostgreSQL that is gone.
func (l *applyBackoff) forget(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.until, key)
}
