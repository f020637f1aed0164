package rollout

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-dev/fettle/internal/apply"
)

const (
	// inUseFor is how long a version in use by an old ReplicaSet or ControllerRevision is not checked again.
	inUseFor = 5 * time.Minute
	// page is how many objects one request lists.
	page = 500
)

// inUse remembers versions that were found in use, to save live reads. The deletion of a version may therefore be a little late.
type inUse struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	until map[string]time.Time
}

func newInUse(c clock.PassiveClock) *inUse { return &inUse{clock: c, until: map[string]time.Time{}} }

func (u *inUse) contains(id string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.clock.Now().Before(u.until[id])
}

func (u *inUse) add(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.clock.Now()
	for other, until := range u.until {
		if !now.Before(until) {
			delete(u.until, other)
		}
	}
	u.until[id] = now.Add(inUseFor)
}

// Unused returns the named versions of an object that no workload, no ReplicaSet with current or desired pods, and no ControllerRevision
// refers to. It reads from the API server if the cache shows no user: for a version in use, once in five minutes.
func (e *Engine) Unused(ctx context.Context, namespace, kind string, names []string) ([]string, error) {
	var unused []string
	for _, name := range names {
		found := map[apply.ObjectID]*Workload{}
		if err := e.workloads.list(ctx, namespace, client.MatchingFields{indexUsed: kind + "/" + name}, found); err != nil {
			return nil, err
		}
		if len(found) == 0 && !e.inUse.contains(namespace+"/"+kind+"/"+name) {
			unused = append(unused, name)
		}
	}
	if len(unused) == 0 {
		return nil, nil
	}
	used := map[string]bool{}
	if err := e.usedByReplicaSets(ctx, namespace, kind, used); err != nil {
		return nil, err
	}
	if err := e.usedByRevisions(ctx, namespace, unused, used); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(unused, func(name string) bool {
		if used[name] {
			e.inUse.add(namespace + "/" + kind + "/" + name)
		}
		return used[name]
	}), nil
}

func (e *Engine) usedByReplicaSets(ctx context.Context, namespace, kind string, used map[string]bool) error {
	for list := (&k8sappsv1.ReplicaSetList{}); ; {
		if err := e.live.List(ctx, list, client.InNamespace(namespace), client.Limit(page), client.Continue(list.Continue)); err != nil {
			return fmt.Errorf("list ReplicaSets: %w", err)
		}
		for i := range list.Items {
			if rs := &list.Items[i]; count(rs.Spec.Replicas) > 0 || rs.Status.Replicas > 0 {
				for _, ref := range ReferencesOf(&rs.Spec.Template.Spec) {
					used[ref.Name] = used[ref.Name] || ref.Kind == kind
				}
			}
		}
		if list.Continue == "" {
			return nil
		}
	}
}

// usedByRevisions counts every mention of a name as a reference, because the form of a revision depends on its controller.
func (e *Engine) usedByRevisions(ctx context.Context, namespace string, names []string, used map[string]bool) error {
	for list := (&k8sappsv1.ControllerRevisionList{}); ; {
		if err := e.live.List(ctx, list, client.InNamespace(namespace), client.Limit(page), client.Continue(list.Continue)); err != nil {
			return fmt.Errorf("list ControllerRevisions: %w", err)
		}
		for i := range list.Items {
			for _, name := range names {
				used[name] = used[name] || bytes.Contains(list.Items[i].Data.Raw, []byte(`"`+name+`"`))
			}
		}
		if list.Continue == "" {
			return nil
		}
	}
}
