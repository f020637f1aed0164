package rollout

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
)

const (
	// patience bounds how long the cache is waited for; a watch that is further behind is broken.
	patience = 30 * time.Second
	// remembered bounds how long it is known who was written to. It is longer than any sensible Policy.MinInterval.
	remembered = 10 * time.Minute
	// firstRetry and lastRetry are when a write is tried again that the API server refused: quota and policies change.
	firstRetry = 2 * time.Second
	lastRetry  = 2 * time.Minute
	// maxRefusals bounds how many workloads are remembered for it.
	maxRefusals = 10_000
)

// workloadID names a workload.
type workloadID struct{ kind, namespace, name string }

func idOf(w *Workload) workloadID { return workloadID{w.Kind, w.Namespace, w.Name} }

// written is the last write to a workload.
type written struct {
	uid     types.UID
	version string
	at      time.Time
	// noted is when each owner's note was written, by annotation.
	noted map[string]time.Time
}

// recollection is what the memory holds of a workload.
type recollection struct {
	// behind is true where the cache does not show the last write.
	behind bool
	// noted is when the owner's note was last written; zero if that is not known.
	noted time.Time
}

// memory holds this package's own writes until the cache shows them, and for a while longer, so that whoever removes notes is
// not answered at once each time. Losing it does no harm.
type memory struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	writes map[workloadID]written
	swept  time.Time
	// refusals counts, for each workload, the writes that were refused since the last that was not.
	refusals map[workloadID]int
}

func newMemory(c clock.PassiveClock) *memory {
	return &memory{clock: c, writes: map[workloadID]written{}, swept: c.Now(), refusals: map[workloadID]int{}}
}

// wrote remembers a write of the owner's note that led to that version.
func (m *memory) wrote(w *Workload, owner Owner, version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	id := idOf(w)
	delete(m.refusals, id)
	last := m.writes[id]
	if last.uid != w.UID || last.noted == nil {
		last.noted = map[string]time.Time{}
	}
	last.noted[owner.annotation()] = now
	last.uid, last.version, last.at = w.UID, version, now
	m.writes[id] = last
	if now.Sub(m.swept) < patience {
		return
	}
	m.swept = now
	for other, o := range m.writes {
		if now.Sub(o.at) >= remembered {
			delete(m.writes, other)
		}
	}
}

// refused returns how long to wait before a write to w is tried again that was refused: longer each time.
func (m *memory) refused(w *Workload) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.refusals) >= maxRefusals {
		clear(m.refusals)
	}
	n := m.refusals[idOf(w)]
	m.refusals[idOf(w)] = n + 1
	return min(firstRetry<<min(n, 10), lastRetry)
}

// of returns what is remembered of w, a copy from the cache.
func (m *memory) of(w *Workload, owner Owner) recollection {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, ok := m.writes[idOf(w)]
	if !ok || last.uid != w.UID {
		return recollection{}
	}
	return recollection{behind: m.behind(last, w), noted: last.noted[owner.annotation()]}
}

func (m *memory) behind(last written, w *Workload) bool {
	order, err := resourceversion.CompareResourceVersion(w.ResourceVersion, last.version)
	return err == nil && order < 0 && m.clock.Since(last.at) < patience
}

// recent returns the workloads of a namespace that the cache may not show as they were last written.
func (m *memory) recent(namespace string) []workloadID {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ids []workloadID
	for id, last := range m.writes {
		if id.namespace == namespace && m.clock.Since(last.at) < patience {
			ids = append(ids, id)
		}
	}
	return ids
}
