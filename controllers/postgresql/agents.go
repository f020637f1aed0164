package postgresql

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/pki"
)

const (
	// agentCall bounds a question to an agent; desiredCall the making of roles and databases.
	agentCall   = 2 * time.Second
	desiredCall = 20 * time.Second
	// pollIdle is how old an answer may be while nothing happens: it tells of disks that fill up. pollActive while something does.
	pollIdle, pollActive = time.Minute, time.Second
	// pollArchiving is pollIdle where WAL is archived: a store that is away is reported within a minute.
	pollArchiving = 20 * time.Second
)

func idlePoll(pg *databasev1alpha1.PostgreSQL) time.Duration {
	if backsUp(pg) {
		return pollArchiving
	}
	return pollIdle
}

// agents asks the agents of all clusters how they are, and keeps what they said for a while. It asks no API server. It is
// safe for concurrent use.
type agents struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	cached map[types.NamespacedName]answers
}

// answers are of one cluster.
type answers struct {
	at time.Time
	// byUID are the answers by the UID of the pod.
	byUID map[string]agentapi.Status
	// queried are the pods that were asked, those that did not answer too.
	queried map[string]bool
}

func newAgents(c clock.PassiveClock) *agents {
	return &agents{clock: c, cached: map[types.NamespacedName]answers{}}
}

// statuses returns what the agents of the pods say, at most maxAge old; pods that were not there before are asked at once.
func (a *agents) statuses(
	ctx context.Context, pg *databasev1alpha1.PostgreSQL, certs *certificates, pods []corev1.Pod, maxAge time.Duration,
) map[string]agentapi.Status {
	key := types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name}
	a.mu.Lock()
	known := a.cached[key]
	a.mu.Unlock()
	fresh := a.clock.Since(known.at) < maxAge
	for i := range pods {
		fresh = fresh && (!reachable(&pods[i]) || known.queried[string(pods[i].UID)])
	}
	if fresh {
		return known.byUID
	}
	known = a.queryAll(ctx, pg, certs, pods)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cached[key] = known
	return known.byUID
}

// last is what the agents of a cluster said when they were asked last; nil if they never were.
func (a *agents) last(key types.NamespacedName) map[string]agentapi.Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cached[key].byUID
}

// forget drops what is known of a cluster; the next pass asks again.
func (a *agents) forget(key types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.cached, key)
}

func (a *agents) queryAll(ctx context.Context, pg *databasev1alpha1.PostgreSQL, certs *certificates, pods []corev1.Pod) answers {
	out := answers{at: a.clock.Now(), byUID: map[string]agentapi.Status{}, queried: map[string]bool{}}
	var mu sync.Mutex
	var calls sync.WaitGroup
	ctx, cancel := context.WithTimeout(ctx, agentCall)
	defer cancel()
	for i := range pods {
		pod := &pods[i]
		if !reachable(pod) {
			continue
		}
		out.queried[string(pod.UID)] = true
		calls.Go(func() {
			client, err := certs.dial(pg, pod)
			if err != nil {
				return
			}
			defer client.Close()
			status, err := client.Status(ctx)
			if err != nil || status.PodUID != string(pod.UID) {
				return // no answer, or that of a pod which had the address before
			}
			mu.Lock()
			defer mu.Unlock()
			out.byUID[string(pod.UID)] = status
		})
	}
	calls.Wait()
	return out
}

func reachable(pod *corev1.Pod) bool { return pod.Status.PodIP != "" && pod.DeletionTimestamp == nil }

// dial returns a client of the agent in the pod.
func (c *certificates) dial(pg *databasev1alpha1.PostgreSQL, pod *corev1.Pod) (*agentapi.Client, error) {
	pair, err := c.ca.Client(pki.Operator, time.Now())
	if err != nil {
		return nil, fmt.Errorf("certificate of the operator: %w", err)
	}
	address := net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(agentapi.Port))
	return agentapi.NewClient(agentapi.Host(pg.Name, pg.Namespace, pod.Name), address, pair, c.ca.Certificate)
}

// applyDatabaseObjects has the primary's agent make what is desired.
func (c *certificates) applyDatabaseObjects(ctx context.Context, pg *databasev1alpha1.PostgreSQL, pod *corev1.Pod, desired agentapi.Desired) (agentapi.Result, error) {
	client, err := c.dial(pg, pod)
	if err != nil {
		return agentapi.Result{}, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, desiredCall)
	defer cancel()
	return client.ApplyDesired(ctx, desired)
}

// restart has an agent restart its server in place.
func (c *certificates) restart(ctx context.Context, pg *databasev1alpha1.PostgreSQL, pod *corev1.Pod) error {
	client, err := c.dial(pg, pod)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, agentCall)
	defer cancel()
	return client.Restart(ctx)
}
