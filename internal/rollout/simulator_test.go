package rollout

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A simulated cluster. Its workloads' pods remember the contents that they started with. The operator sees the workloads late, may crash at
// any write, and calls the engine as the controllers do.

var errCrash = errors.New("the operator crashed")

// start is the start time of all simulations and tables.
var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// simWorkload is a workload in the API server, with the contents that its pods run.
type simWorkload struct {
	Workload
	version int
	// pods is the contents that the newest pods started with.
	pods map[string]string
	// left is how many steps its rollout takes; 0 if it is complete.
	left int
	// fails is true while its rollouts make no progress.
	fails bool
	// ours is true while the operator began its current rollout.
	ours     bool
	lastRoll time.Time
}

type simulator struct {
	t   *testing.T
	rng *rand.Rand
	now time.Time

	policy   Policy
	desired  map[string]string
	data     map[string]string
	exists   bool
	stamp    string
	cluster  map[string]*simWorkload
	cache    map[string]*Workload
	synced   time.Time
	writes   map[string]string // versions that the operator wrote, which the cache may not show
	budget   int               // writes before the operator crashes; negative: never
	restarts int
	next     int
	log      []string
}

func newSimulator(t *testing.T, seed uint64) *simulator {
	rng := rand.New(rand.NewPCG(seed, 1))
	return &simulator{
		t: t, rng: rng, now: start, budget: -1, desired: map[string]string{"a": "0", "b": "0", "c": "0"},
		policy: Policy{
			Debounce: 5 * time.Second, MinInterval: 30 * time.Second, MaxConcurrent: 1 + rng.IntN(2), ProgressDeadline: 10 * time.Minute,
		},
		cluster: map[string]*simWorkload{}, cache: map[string]*Workload{}, writes: map[string]string{},
	}
}

func (w *simulator) logf(format string, args ...any) {
	w.log = append(w.log, w.now.Format("15:04:05 ")+fmt.Sprintf(format, args...))
}

func (w *simulator) fail(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.log[max(0, len(w.log)-60):] {
		w.t.Log(line)
	}
	w.t.Fatalf(format, args...)
}

func (w *simulator) object() Object {
	data := map[string][]byte{}
	for k, v := range w.data {
		data[k] = []byte(v)
	}
	return Object{Kind: ConfigMap, Target: "shop-config", Name: "shop-config", Exists: w.exists, Data: data, PublishedAt: w.stamp}
}

func (w *simulator) owner() Owner { return Owner{Prefix: ConfigPrefix, Namespace: "web", Name: "shop"} }

// roll restarts the pods of s with the published contents.
func (w *simulator) roll(s *simWorkload) {
	s.pods = maps.Clone(w.data)
	s.left = 1 + w.rng.IntN(3)
	if s.Progress.Pods == 0 {
		s.left = 0
	}
	s.lastRoll = w.now
}

// bump makes a write to s visible to the API server.
func (w *simulator) bump(s *simWorkload) {
	s.version++
	s.Progress.since = w.now
	s.ResourceVersion = fmt.Sprint(s.version)
	s.Progress.Phase = Complete
	if s.left > 0 {
		s.Progress.Phase = InProgress
		if s.fails {
			s.Progress.Phase, s.Progress.Message = Stuck, "the pods cannot start"
		}
	}
}

// used returns the values of the keys that s refers to.
func used(s *simWorkload, data map[string]string) map[string]string {
	values := map[string]string{}
	for _, ref := range s.References {
		if value, ok := data[ref.Key]; ok {
			values[ref.Key] = value
		}
	}
	return values
}

// outdated reports whether the pods of s run other contents than the published ones.
func (w *simulator) outdated(s *simWorkload) bool {
	return !maps.Equal(used(s, s.pods), used(s, w.data))
}

func (w *simulator) names() []string { return slices.Sorted(maps.Keys(w.cluster)) }

// create creates a workload that uses one or two of the keys.
func (w *simulator) create() {
	w.next++
	s := &simWorkload{Workload: Workload{
		Kind: []string{Deployment, StatefulSet, DaemonSet}[w.rng.IntN(3)], Namespace: "web", Name: fmt.Sprintf("w%02d", w.next),
		References: w.someReferences(), created: w.now, changed: w.now,
		records: map[string]string{}, templates: map[string]string{}, Progress: Progress{Pods: int32(w.rng.IntN(4))},
	}}
	s.UID = "uid-" + "w"
	s.Progress.deadline, s.Progress.resetsOnPodFailure = s.Kind == Deployment, s.Kind == DaemonSet
	w.cluster[s.Name] = s
	w.roll(s)
	w.bump(s)
	w.logf("create %s using %v", s.Name, s.References)
}

func (w *simulator) someReferences() []Reference {
	var refs []Reference
	for _, key := range []string{"a", "b", "c"} {
		if w.rng.IntN(2) == 0 {
			refs = append(refs, Reference{Kind: ConfigMap, Name: "shop-config", Key: key, Optional: w.rng.IntN(3) == 0})
		}
	}
	if refs == nil {
		refs = []Reference{{Kind: ConfigMap, Name: "shop-config", Key: "a"}}
	}
	return refs
}

// copyOf is the cached copy of s.
func copyOf(s *simWorkload) *Workload {
	out := s.Workload
	out.records, out.templates = maps.Clone(s.records), maps.Clone(s.templates)
	out.References = slices.Clone(s.References)
	return &out
}

// sync brings the cache up to date.
func (w *simulator) sync() {
	w.synced = w.now
	clear(w.cache)
	for name, s := range w.cluster {
		w.cache[name] = copyOf(s)
	}
}

// write is one write of the operator to a workload, for the version in its cache. The operator may crash before or after it. It returns
// false for a conflict.
func (w *simulator) write(name string, change func(*simWorkload)) (bool, error) {
	if w.budget == 0 {
		return false, errCrash
	}
	w.budget--
	s, cached := w.cluster[name], w.cache[name]
	if s == nil || s.ResourceVersion != cached.ResourceVersion {
		return false, nil
	}
	change(s)
	w.bump(s)
	w.writes[name] = s.ResourceVersion
	if w.budget == 0 && w.rng.IntN(2) == 0 {
		return true, errCrash
	}
	return true, nil
}

func (w *simulator) lastWrite(cached *Workload) lastWrite {
	version, ok := w.writes[cached.Name]
	return lastWrite{cacheBehind: ok && atoi(cached.ResourceVersion) < atoi(version)}
}

func atoi(s string) int {
	n := 0
	for _, c := range s {
		n = n*10 + int(c-'0')
	}
	return n
}

// users are the cached workloads.
func (w *simulator) users() []*Workload {
	return slices.SortedFunc(maps.Values(w.cache), func(a, b *Workload) int { return cmp.Compare(b.Name, a.Name) })
}

// reconcile calls the engine as a controller does: record the baseline, publish, roll.
func (w *simulator) reconcile() (plan, error) {
	p := &evaluation{now: w.now, owner: w.owner(), policy: w.policy, published: []Object{w.object()}, key: testKey}
	if !w.exists || !maps.Equal(w.data, w.desired) {
		if ok, err := w.publish(*p); err != nil || !ok {
			return plan{}, err
		}
		p.published = []Object{w.object()}
	}
	out := p.decide(w.users(), w.lastWrite)
	for _, a := range out.records {
		if _, err := w.writeRecord(out, a); err != nil {
			return out, err
		}
	}
	for _, a := range out.restarts {
		ok, err := w.write(out.dependants[a.at].Name, func(s *simWorkload) { w.restart(s, a) })
		if err != nil || !ok {
			return out, err
		}
	}
	return out, nil
}

func (w *simulator) publish(before evaluation) (bool, error) {
	before.beforeChange = true
	adoption := before.decide(w.users(), w.lastWrite)
	for _, a := range adoption.records {
		if ok, err := w.writeRecord(adoption, a); err != nil || !ok {
			return false, err
		}
	}
	if w.budget == 0 {
		return false, errCrash
	}
	w.budget--
	w.stamp = PublishedAt(w.stamp, w.exists, true, w.now)
	for _, s := range w.cluster {
		if !w.exists && slices.ContainsFunc(s.References, func(r Reference) bool { return !r.Optional }) {
			s.pods = maps.Clone(w.desired) // they could not start until now
		}
	}
	w.data, w.exists = maps.Clone(w.desired), true
	w.logf("publish %v", w.data)
	return true, nil
}

func (w *simulator) writeRecord(out plan, a action) (bool, error) {
	name := out.dependants[a.at].Name
	return w.write(name, func(s *simWorkload) {
		w.logf("record on %s: %s", name, a.record)
		s.records[w.owner().annotation()] = a.record.String()
	})
}
