package postgresql

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// late leaves a primary alone for a while that could not be told of databases and roles, for twice as long as that took: one whose
// commits wait for standbys that are lost would take a worker from all other PostgreSQLs. One that refuses at once is told again at
// once. Losing it costs a repetition. It is safe for concurrent use.
type late struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	until map[types.NamespacedName]lateness
}

// lateness is why wishes with a hash could not be told, and until when they are not told again.
type lateness struct {
	hash string
	err  error
	at   time.Time
}

func newLate(c clock.PassiveClock) *late {
	return &late{clock: c, until: map[types.NamespacedName]lateness{}}
}

// note remembers that telling these wishes took so long, and ended with err; nil ends it.
func (l *late) note(key types.NamespacedName, hash string, err error, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		delete(l.until, key)
		return
	}
	l.until[key] = lateness{hash, err, l.clock.Now().Add(2 * took)}
}

// err is why these wishes are not told now; nil if they are.
func (l *late) err(key types.NamespacedName, hash string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, ok := l.until[key]; ok && known.hash == hash && l.clock.Now().Before(known.at) {
		return known.err
	}
	return nil
}

// forget drops what is known of a PostgreSQL that is gone.
func (l *late) forget(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.until, key)
}
