package agent

import (
	"context"
	"sync"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/peer"
)

const (
	// peerCall bounds a question to another agent.
	peerCall = time.Second
	// peerCalm and peerUrgent are the times between two questions to each, with a known primary and without.
	peerCalm, peerUrgent = 2 * time.Second, 50 * time.Millisecond
)

// peerAnswer is what another agent said last.
type peerAnswer struct {
	peer.Status

	// At is when the question was sent; 0 if there was never an answer.
	At time.Duration
	// Err is why the last question was not answered.
	Err error
}

// peers asks the other agents of the cluster how they are. It is safe for concurrent use.
type peers struct {
	files   *peer.Files
	cluster string
	self    int
	// host and address are of the agent with an ordinal.
	host, address func(ordinal int) string
	// changed is called when an answer differs in what matters for a decision, or fails.
	changed func()

	mutex   sync.Mutex
	members map[int]*member
	urgent  bool
}

type member struct {
	client *peer.Client
	answer peerAnswer
	poke   chan struct{}
	stop   context.CancelFunc
}

// SetSize begins to ask those below size and ends asking others.
func (p *peers) SetSize(ctx context.Context, size int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for ordinal, m := range p.members {
		if ordinal >= size {
			m.stop()
			delete(p.members, ordinal)
		}
	}
	for ordinal := range size {
		if ordinal == p.self || p.members[ordinal] != nil {
			continue
		}
		each, stop := context.WithCancel(ctx)
		m := &member{client: p.files.NewClient(p.host(ordinal), p.address(ordinal)), poke: make(chan struct{}, 1), stop: stop}
		p.members[ordinal] = m
		go p.follow(each, m)
	}
}

// SetUrgent asks more often, beginning now.
func (p *peers) SetUrgent(urgent bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if urgent == p.urgent {
		return
	}
	p.urgent = urgent
	for _, m := range p.members {
		select {
		case m.poke <- struct{}{}:
		default:
		}
	}
}

// Answers are the last ones, by ordinal.
func (p *peers) Answers() map[int]peerAnswer {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	out := make(map[int]peerAnswer, len(p.members))
	for ordinal, m := range p.members {
		out[ordinal] = m.answer
	}
	return out
}

// IP is the address at which the agent of a pod answered last; "" if it never did.
func (p *peers) IP(pod string) string {
	ordinal, ok := peer.Ordinal(p.cluster, pod)
	p.mutex.Lock()
	m := p.members[ordinal]
	p.mutex.Unlock()
	if !ok || m == nil {
		return ""
	}
	return m.client.IP()
}

func (p *peers) follow(ctx context.Context, m *member) {
	defer m.client.Close()
	for {
		p.ask(ctx, m)
		timer := time.NewTimer(p.pause())
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-m.poke:
			timer.Stop()
		case <-timer.C:
		}
	}
}

func (p *peers) pause() time.Duration {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.urgent {
		return peerUrgent
	}
	return peerCalm
}

func (p *peers) ask(ctx context.Context, m *member) {
	each, cancel := context.WithTimeout(ctx, peerCall)
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
}

func matters(before, after peerAnswer) bool {
	a, b := before.Election, after.Election
	return (before.Err == nil) != (after.Err == nil) || a.UID != b.UID || a.Process != b.Process || a.Role != b.Role || a.Data != b.Data ||
		a.Writable != b.Writable || a.Candidate != b.Candidate || a.Yielded != b.Yielded || a.Position.Timeline != b.Position.Timeline
}

// Failsafe asks those that are named, each beside the others, for a promise not to take the Lease. It calls granted with
// each one that promised, and returns when all have answered or the context has ended.
func (p *peers) Failsafe(ctx context.Context, self peer.FailsafeRequest, names []string, granted func(name string)) {
	var asked sync.WaitGroup
	for _, name := range names {
		ordinal, ok := peer.Ordinal(p.cluster, name)
		p.mutex.Lock()
		m := p.members[ordinal]
		p.mutex.Unlock()
		if !ok || m == nil {
			continue
		}
		asked.Go(func() {
			if reply, err := m.client.Failsafe(ctx, self); err == nil && reply.Granted {
				granted(name)
			}
		})
	}
	asked.Wait()
}
