package rollout

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
)

const (
	// cacheSyncTimeout bounds how long the engine waits for the cache. A watch that is further behind is broken.
	cacheSyncTimeout = 30 * time.Second
	// writeRetention bounds how long a write is remembered. It is longer than any sensible Policy.MinInterval.
	writeRetention = 10 * time.Minute
	// firstRetry and lastRetry bound the delay before a rejected write is retried: quotas and policies change.
	firstRetry = 2 * time.Second
	lastRetry  = 2 * time.Minute
	// maxRejections bounds how many workloads have their rejections counted.
	maxRejections = 10_000
)

// workloadID names a workload.
type workloadID struct{ kind, namespace, name string }

func idOf(w *Workload) workloadID { return workloadID{w.Kind, w.Namespace, w.Name} }

// ownWrite is the last write to a workload.
type ownWrite struct {
	uid     types.UID
	version string
	at      time.Time
	// records is when each owner's record was written, by annotation.
	records map[string]time.Time
}

// lastWrite is the remembered write to a workload.
type lastWrite struct {
	// cacheBehind is true if the cache does not show the last write.
	cacheBehind bool
	// recordedAt is when the owner's record was last written; zero if unknown.
	recordedAt time.Time
}

// ownWrites holds this package's writes until the cache shows them, and for a while longer. The engine therefore does not answer each
// removal of a record at once. Losing it does no harm.
type ownWrites struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	writes map[workloadID]ownWrite
	swept  time.Time
	// rejections counts the writes to each workload that were rejected since its last successful write.
	rejections map[workloadID]int
}

func newOwnWrites(c clock.PassiveClock) *ownWrites {
	return &ownWrites{clock: c, writes: map[workloadID]ownWrite{}, swept: c.Now(), rejections: map[workloadID]int{}}
}

// record remembers a write of the owner's record and the resulting version.
func (m *ownWrites) record(w *Workload, owner Owner, version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	id := idOf(w)
	delete(m.rejections, id)
	last := m.writes[id]
	if last.uid != w.UID || last.records == nil {
		last.records = map[string]time.Time{}
	}
	last.records[owner.annotation()] = now
	last.uid, last.version, last.at = w.UID, version, now
	m.writes[id] = last
	if now.Sub(m.swept) < cacheSyncTimeout {
		return
	}
	m.swept = now
	for other, o := range m.writes {
		if now.Sub(o.at) >= writeRetention {
			delete(m.writes, other)
		}
	}
}

// retryAfter returns the delay before a rejected write to w is retried. It doubles each time.
func (m *ownWrites) retryAfter(w *Workload) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.rejections) >= maxRejections {
		clear(m.rejections)
	}
	n := m.rejections[idOf(w)]
	m.rejections[idOf(w)] = n + 1
	return min(firstRetry<<min(n, 10), lastRetry)
}

// last returns the last write to w, a copy from the cache.
func (m *ownWrites) last(w *Workload, owner Owner) lastWrite {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, ok := m.writes[idOf(w)]
	if !ok || last.uid != w.UID {
		return lastWrite{}
	}
	return lastWrite{cacheBehind: m.cacheBehind(last, w), recordedAt: last.records[owner.annotation()]}
}

func (m *ownWrites) cacheBehind(last ownWrite, w *Workload) bool {
	order, err := resourceversion.CompareResourceVersion(w.ResourceVersion, last.version)
	return err == nil && order < 0 && m.clock.Since(last.at) < cacheSyncTimeout
}

// unsynced returns the workloads of a namespace whose last write the cache may not show.
func (m *ownWrites) unsynced(namespace string) []workloadID {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ids []workloadID
	for id, last := range m.writes {
		if id.namespace == namespace && m.clock.Since(last.at) < cacheSyncTimeout {
			ids = append(ids, id)
		}
	}
	return ids
}
