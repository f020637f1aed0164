package faults

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrCrashed is the error of every request of a crashed controller.
var ErrCrashed = errors.New("the controller has crashed")

// requestLog records the requests of all processes of a plan's controller, and injects the plan's fault.
type requestLog struct {
	plan    Plan
	version func(Key) string // the last resourceVersion of an object that the observer has seen
	touch   func(Key) error  // changes an object, if it exists, and reverts the change
	remove  func()           // does the deletion of F13 or F14

	mu        sync.Mutex
	records   []Record
	writes    int
	step      int
	lastWrite time.Time
	triggered time.Time // zero until the fault happened
	target    Record    // the write with the fault

	staleUntil time.Time // for the target's kind
	crashed    int       // the number of the last process that has crashed
	working    int       // and of the last whose workers started
}

// operatorProcess is the transport of one process of the controller.
type operatorProcess struct {
	requests *requestLog
	number   int
	next     http.RoundTripper
	dead     atomic.Bool
	stop     func() // stops the manager
}

// RoundTrip records the request, and injects the plan's fault if the request is its target.
func (i *operatorProcess) RoundTrip(request *http.Request) (*http.Response, error) {
	if i.dead.Load() {
		return nil, ErrCrashed
	}
	record, err := describe(request)
	if err != nil {
		return nil, err
	}
	at, fault := i.requests.begin(record, i.number)
	switch fault {
	case CrashBefore:
		i.crash()
		return nil, ErrCrashed
	case Reply, HeldReply, Unheard:
		return i.respond(request, record, at)
	}
	response, err := i.next.RoundTrip(request)
	switch {
	case i.dead.Load() && !record.Write:
		return nil, errors.Join(ErrCrashed, closeBody(response))
	case err != nil:
		return nil, err
	case record.Write:
		return i.recordResponse(response, at, fault)
	}
	i.requests.recordRead(at, response.StatusCode)
	if record.Verb == "watch" {
		response.Body = &watchBody{response.Body, i.requests, record.Resource, request.Context().Done()}
	}
	return response, nil
}

// respond answers in place of the API server.
func (i *operatorProcess) respond(request *http.Request, record Record, at int) (*http.Response, error) {
	if i.requests.plan.Answer.modifiesObject {
		if err := i.requests.touch(Key{record.Resource, record.Name}); err != nil {
			return nil, err
		}
	}
	response := i.requests.plan.Answer.response(request)
	i.requests.finish(at, response.StatusCode, nil)
	return response, nil
}

// recordResponse records the API server's response to a write, and returns it if the fault allows.
func (i *operatorProcess) recordResponse(response *http.Response, at int, fault Kind) (*http.Response, error) {
	data, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	i.requests.finish(at, response.StatusCode, data)
	if fault.deletes() {
		i.requests.remove()
	}
	switch {
	case fault == CrashAfter:
		i.crash()
		return nil, ErrCrashed
	case i.dead.Load():
		return nil, ErrCrashed
	case fault == LostResponse || fault == LostAndStale:
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	}
	response.Body = io.NopCloser(bytes.NewReader(data))
	return response, nil
}

func closeBody(response *http.Response) error {
	if response == nil {
		return nil
	}
	return response.Body.Close()
}

func (i *operatorProcess) crash() {
	i.dead.Store(true)
	i.stop()
}

// workersStarted records that a process's controller of the primary kind receives events from now on.
func (t *requestLog) workersStarted(incarnation int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.working = incarnation
}

// workersRunning is nil once the workers of the current process run.
func (t *requestLog) workersRunning() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.working <= t.crashed {
		return errors.New("the controller's workers do not run yet")
	}
	return nil
}

// begin records a request of a process and decides about its fault. A crash counts from now on: the write may have its effect long before
// the process ends.
func (t *requestLog) begin(r Record, process int) (at int, fault Kind) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.Seq = len(t.records)
	if r.Write {
		r.Before = t.version(Key{r.Resource, r.Name})
		t.writes++
		r.K, r.Step, t.lastWrite = t.writes, t.step, time.Now()
		r.Fault = t.decide(r)
	}
	if r.Fault == CrashBefore || r.Fault == CrashAfter {
		t.crashed = process
	}
	t.records = append(t.records, r)
	return r.Seq, r.Fault
}

func (t *requestLog) decide(r Record) Kind {
	switch {
	case t.plan.Call == "":
		return None
	case t.triggered.IsZero() && t.isTarget(r):
		t.triggered, t.target = time.Now(), r
		if t.plan.Kind == Stale || t.plan.Kind == LostAndStale {
			t.staleUntil = t.triggered.Add(staleFor)
		}
		return t.plan.Kind
	case t.plan.Kind == HeldReply && !t.triggered.IsZero() && time.Since(t.triggered) < heldFor &&
		r.String() == t.target.String():
		return HeldReply
	}
	return None
}

// isTarget reports whether r, which is not among the records yet, is the write of the plan.
func (t *requestLog) isTarget(r Record) bool {
	if !r.sameCall(t.plan.Step, t.plan.Call) {
		return false
	}
	if t.plan.Kind == Unheard {
		return r.Before != ""
	}
	nth := 1
	for _, earlier := range t.records {
		if earlier.sameCall(t.plan.Step, t.plan.Call) {
			nth++
		}
	}
	return nth == t.plan.Nth
}

func (t *requestLog) finish(at, code int, body []byte) {
	_, version := identity(body)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lastWrite = time.Now()
	t.records[at].Code, t.records[at].RV = code, version
}

// recordRead records the result of a read.
func (t *requestLog) recordRead(at, code int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.records[at].Code = code
}

// beginStep records the scenario's step that the next writes belong to.
func (t *requestLog) beginStep(step int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.step = step
}

// sinceLastWrite is the time since the last write.
func (t *requestLog) sinceLastWrite() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Since(t.lastWrite)
}

// written returns the writes so far, in the order in which they began.
func (t *requestLog) written() []Record { return t.recorded(func(r Record) bool { return r.Write }) }

func (t *requestLog) recorded(want func(Record) bool) []Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	var chosen []Record
	for _, r := range t.records {
		if want(r) {
			chosen = append(chosen, r)
		}
	}
	return chosen
}

// fault returns the write with the fault, and its time; zero if it has not happened.
func (t *requestLog) fault() (Record, time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.target, t.triggered
}

// cacheDelay is how long the events of a kind are delayed.
func (t *requestLog) cacheDelay(resource schema.GroupVersionResource) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if resource != t.target.Resource {
		return 0
	}
	return time.Until(t.staleUntil)
}

// watchBody is the stream of a watch. It is delayed while the plan keeps the cache stale.
type watchBody struct {
	io.ReadCloser

	requests *requestLog
	resource schema.GroupVersionResource
	done     <-chan struct{}
}

func (w *watchBody) Read(into []byte) (int, error) {
	n, err := w.ReadCloser.Read(into)
	for late := w.requests.cacheDelay(w.resource); late > 0 && err == nil; late = w.requests.cacheDelay(w.resource) {
		select {
		case <-time.After(late):
		case <-w.done:
			return n, err
		}
	}
	return n, err
}
