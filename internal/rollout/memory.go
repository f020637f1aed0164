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
}

func newMemory(c clock.PassiveClock) *memory {
	return &memory{clock: c, writes: map[workloadID]written{}, swept: c.Now()}
}

// wrote remembers a write of the owner's note that led to that version.
func (m *memory) wrote(w *Workload, owner Owner, version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	id := idOf(w)
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
