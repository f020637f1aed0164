package agent

import (
	"context"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

const (
	// peerTimeout bounds a request to another agent.
	peerTimeout = time.Second
	// peerInterval and peerIntervalUrgent are the times between two requests to each peer, with a known primary and without.
	peerInterval, peerIntervalUrgent = 2 * time.Second, 50 * time.Millisecond
)

// peerAnswer is the last answer of another agent.
type peerAnswer struct {
	agentapi.Status

	// At is when the request was sent; 0 if there was never an answer.
	At time.Duration
	// Err is why the last request failed.
	Err error
}

// peers requests the status of the other agents of the cluster. It is safe for concurrent use.
type peers struct {
	files *agentapi.CertFiles
	self  string
	// host and address are of the agent in a pod.
	host, address func(pod string) string
	pods          coreclient.PodInterface
	// changed is called when an answer differs in a way that matters for a decision, or fails.
	changed func()

	mutex   sync.Mutex
	members map[string]*member
	urgent  bool
}

type member struct {
	client *agentapi.Client
	answer peerAnswer
	wake   chan struct{}
	stop   context.CancelFunc
}

// SetInstances starts to poll the agents in pods, and stops polling others.
func (p *peers) SetInstances(ctx context.Context, pods []string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for pod, m := range p.members {
		if !slices.Contains(pods, pod) {
			m.stop()
			delete(p.members, pod)
		}
	}
	for _, pod := range pods {
		if pod == p.self || p.members[pod] != nil {
			continue
		}
		each, stop := context.WithCancel(ctx)
		m := &member{client: p.files.NewClient(p.host(pod), p.address(pod)), wake: make(chan struct{}, 1), stop: stop}
		p.members[pod] = m
		go p.follow(each, pod, m)
	}
}

// SetUrgent polls more often, starting now.
func (p *peers) SetUrgent(urgent bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if urgent == p.urgent {
		return
	}
	p.urgent = urgent
	for _, m := range p.members {
		select {
		case m.wake <- struct{}{}:
		default:
		}
	}
}

func (p *peers) Answers() map[string]peerAnswer {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	out := make(map[string]peerAnswer, len(p.members))
	for pod, m := range p.members {
		out[pod] = m.answer
	}
	return out
}

// IP is the address at which the agent of a pod last answered, or which the API server reports; "" for none.
func (p *peers) IP(pod string) string {
	if m := p.member(pod); m != nil {
		return m.client.IP()
	}
	return ""
}

func (p *peers) member(pod string) *member {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.members[pod]
}

func (p *peers) follow(ctx context.Context, pod string, m *member) {
	defer m.client.Close()
	for {
		// The cluster's DNS may be lost together with a node, while the pod has another address than when it answered last.
		if err := p.ask(ctx, m); err != nil && m.client.Unresolved() {
			p.find(ctx, pod, m)
		}
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		case <-time.After(p.pause()):
		}
	}
}

func (p *peers) pause() time.Duration {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.urgent {
		return peerIntervalUrgent
	}
	return peerInterval
}

func (p *peers) ask(ctx context.Context, m *member) error {
	each, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	sent := now()
	status, err := m.client.Status(each)
	p.mutex.Lock()
	before := m.answer
	if err == nil {
		m.answer = peerAnswer{Status: status, At: sent}
		if m.answer.Election.Name != "" {
			m.answer.Election.Name, m.answer.Election.UID = status.Pod, status.PodUID
		}
	} else {
		m.answer.Err = err
	}
	news := p.urgent || matters(before, m.answer)
	p.mutex.Unlock()
	if news {
		p.changed()
	}
	return err
}

// find looks up the address of a pod's agent in the API server.
func (p *peers) find(ctx context.Context, pod string, m *member) {
	ctx, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	if found, err := p.pods.Get(ctx, pod, metav1.GetOptions{}); err == nil && found.Status.PodIP != "" {
		m.client.SetIP(found.Status.PodIP)
	}
}

func matters(before, after peerAnswer) bool {
	a, b := before.Election, after.Election
	return (before.Err == nil) != (after.Err == nil) || a.UID != b.UID || a.Process != b.Process || a.Role != b.Role || a.Data != b.Data ||
		a.Writable != b.Writable || a.Candidate != b.Candidate || a.WALReceiverStoppedFor != b.WALReceiverStoppedFor || a.Position.Timeline != b.Position.Timeline
}

// Failsafe asks the agents of pods in parallel for a promise not to take the lease. It calls granted for each promise, and
// returns when all have answered or the context has ended.
func (p *peers) Failsafe(ctx context.Context, self agentapi.FailsafeRequest, pods []string, granted func(pod string)) {
	var asked sync.WaitGroup
	for _, pod := range pods {
		m := p.member(pod)
		if m == nil {
			continue
		}
		asked.Go(func() {
			if reply, err := m.client.Failsafe(ctx, self); err == nil && reply.Granted {
				granted(pod)
			}
		})
	}
	asked.Wait()
}
