package postgresql

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// applyBackoff leaves a primary alone for a while that could not be told of databases and roles, for twice as long as that took: one whose
// commits wait for standbys that are lost would take a worker from all other PostgreSQLs. One that refuses at once is told again at
// once. Losing it costs a repetition. It is safe for concurrent use.
type applyBackoff struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	until map[types.NamespacedName]backoffEntry
}

// backoffEntry is why wishes with a hash could not be told, and until when they are not told again.
type backoffEntry struct {
	hash string
	err  error
	at   time.Time
}

func newApplyBackoff(c clock.PassiveClock) *applyBackoff {
	return &applyBackoff{clock: c, until: map[types.NamespacedName]backoffEntry{}}
}

// record remembers that telling these wishes took so long, and ended with err; nil ends it.
func (l *applyBackoff) record(key types.NamespacedName, hash string, err error, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		delete(l.until, key)
		return
	}
	l.until[key] = backoffEntry{hash, err, l.clock.Now().Add(2 * took)}
}

// err is why these wishes are not told now; nil if they are.
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
