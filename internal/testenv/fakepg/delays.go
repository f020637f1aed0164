package fakepg

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// terminationTime is how long a pod stays Terminating. A real pod can take up to its grace period.
	terminationTime = 300 * time.Millisecond
	// loadTime is how long an agent keeps the previous spec after a change. A real agent watches the object.
	loadTime = 100 * time.Millisecond
	// finalizer keeps a pod until terminationTime has passed, like a kubelet.
	finalizer = "fettle.dev/fake-kubelet"
)

// removeTerminated removes the pods whose termination is complete.
func (p *Kubelet) removeTerminated(ctx context.Context, w *fixture) error {
	for _, pod := range w.terminating {
		if wait := p.terminationLeft(pod.UID); wait > 0 {
			p.queue.AddAfter(w.key, wait)
			continue
		}
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		if err := p.client.Patch(ctx, pod.DeepCopy(), patch); client.IgnoreNotFound(err) != nil {
			return err
		}
		// A pod with a node is also kept for its grace period.
		err := p.client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		p.mu.Lock()
		delete(p.deletedAt, pod.UID)
		p.mu.Unlock()
	}
	return nil
}

// removeReleasedClaims removes deleted claims that no pod uses, like the PVC protection controller.
func (p *Kubelet) removeReleasedClaims(ctx context.Context, w *fixture) error {
	claims := &corev1.PersistentVolumeClaimList{}
	if err := p.cache.List(ctx, claims, client.InNamespace(w.key.Namespace), client.MatchingLabels{labelOwner: w.key.Name}); err != nil {
		return err
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		pod := strings.TrimPrefix(claim.Name, "data-")
		if claim.DeletionTimestamp == nil || w.pods[pod] != nil || w.terminating[pod] != nil {
			continue
		}
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		if err := p.client.Patch(ctx, claim, patch); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

func (p *Kubelet) terminationLeft(uid types.UID) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deletedAt[uid].IsZero() {
		p.deletedAt[uid] = time.Now()
	}
	return terminationTime - time.Since(p.deletedAt[uid])
}

// generations are the generation that an agent has loaded, and a newer one that it will load.
type generations struct {
	loaded, next int64
	since        time.Time
}

// generation returns the generation that the agent of a pod has loaded. It starts with the latest. The caller holds the
// lock.
func (p *Kubelet) generation(uid types.UID, latest int64) int64 {
	g, known := p.loaded[uid]
	switch {
	case !known:
		g = generations{loaded: latest, next: latest}
	case g.next != latest:
		g.next, g.since = latest, time.Now()
	case time.Since(g.since) >= loadTime:
		g.loaded = g.next
	}
	p.loaded[uid] = g
	return g.loaded
}
