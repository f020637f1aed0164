package faults

import (
	"bytes"
	"encoding/json"
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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/controller-runtime/pkg/controller"
)

// ErrCrashed is what every request of a crashed controller ends with.
var ErrCrashed = errors.New("the controller has crashed")

// Record is one request of the controller.
type Record struct {
	Seq         int // over the whole plan
	Incarnation int // 1, and one more after each crash
	Reconcile   types.UID
	Verb        string // as in RBAC, and "apply" for a server-side apply
	Resource    schema.GroupVersionResource
	Sub         string
	Namespace   string
	Name        string
	Write       bool
	K           int // this is the k-th write, from 1; 0 if it is none
	Code        int
	Fault       Kind   // what was done to it
	Before      string // the object's resourceVersion when the write began, as far as the judge had seen
	RV          string // and in its answer
}

// String is short: it goes into reports.
func (r Record) String() string {
	name := r.Resource.Resource + "/" + r.Name
	if r.Sub != "" {
		name += "/" + r.Sub
	}
	return r.Verb + " " + name
}

// creates reports whether the write may have to make the object.
func (r Record) creates() bool { return r.Sub == "" && (r.Verb == "create" || r.Verb == "apply") }

// tape records what all incarnations of a plan's controller do, and does the plan's fault.
type tape struct {
	plan    Plan
	version func(Key) string // the resourceVersion of an object that the judge has seen last
	touch   func(Key) error  // changes an object, if it exists, and takes the change back

	mu        sync.Mutex
	records   []Record
	writes    int
	lastWrite time.Time
	triggered time.Time // zero until the fault happened
	target    Record    // the write that the fault happened to

	staleUntil time.Time // for the target's kind
}

// incarnation is the transport of one life of the controller.
type incarnation struct {
	tape   *tape
	number int
	next   http.RoundTripper
	dead   atomic.Bool
	die    func() // ends the manager
}

var requestInfo = apirequest.RequestInfoFactory{
	APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
}

var writeVerbs = sets.New("create", "update", "patch", "apply", "delete", "deletecollection")

// describe tells what a request is for. Events and Leases are no writes: they come at times of their own.
func describe(request *http.Request) (Record, error) {
	info, err := requestInfo.NewRequestInfo(request)
	if err != nil {
		return Record{}, err
	}
	r := Record{
		Reconcile: controller.ReconcileIDFromContext(request.Context()), Verb: info.Verb,
		Resource: schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource},
		Sub:      info.Subresource, Namespace: info.Namespace, Name: info.Name,
	}
	if r.Verb == "patch" && request.Header.Get("Content-Type") == string(types.ApplyYAMLPatchType) {
		r.Verb = "apply"
	}
	r.Write = info.IsResourceRequest && writeVerbs.Has(r.Verb) && request.URL.Query().Get("dryRun") == "" &&
		r.Resource.Resource != "events" && r.Resource.Resource != "leases" &&
		r.Resource.Group != "authorization.k8s.io" && r.Resource.Group != "authentication.k8s.io"
	if r.Verb == "create" && r.Write && request.Body != nil {
		r.Name, err = nameInBody(request)
	}
	return r, err
}

func nameInBody(request *http.Request) (string, error) {
	data, err := io.ReadAll(request.Body)
	if err != nil {
		return "", err
	}
	request.Body = io.NopCloser(bytes.NewReader(data))
	name, _ := identity(data)
	return name, nil
}

// identity reads the metadata of an object in JSON; empty strings stand for what is missing.
func identity(data []byte) (name, resourceVersion string) {
	var object struct {
		Metadata struct{ Name, ResourceVersion string }
	}
	if json.Unmarshal(data, &object) != nil {
		return "", ""
	}
	return object.Metadata.Name, object.Metadata.ResourceVersion
}

// RoundTrip records the request and does the plan's fault to it, if it is its turn.
func (i *incarnation) RoundTrip(request *http.Request) (*http.Response, error) {
	if i.dead.Load() {
		return nil, ErrCrashed
	}
	record, err := describe(request)
	if err != nil {
		return nil, err
	}
	at, fault := i.tape.begin(record, i.number)
	switch fault {
	case CrashBefore:
		i.crash()
		return nil, ErrCrashed
	case Reply, HeldReply:
		if i.tape.plan.Answer.touches {
			if err := i.tape.touch(Key{record.Resource, record.Name}); err != nil {
				return nil, err
			}
		}
		response := i.tape.plan.Answer.response(request)
		i.tape.finish(at, response.StatusCode, nil)
		return response, nil
	}
	response, err := i.next.RoundTrip(request)
	if err != nil || !record.Write {
		if i.dead.Load() {
			return nil, errors.Join(ErrCrashed, closeBody(response))
		}
		if err == nil {
			i.tape.answered(at, response.StatusCode)
		}
		if err == nil && record.Verb == "watch" {
			response.Body = &watchBody{response.Body, i.tape, record.Resource, request.Context().Done()}
		}
		return response, err
	}
	data, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	i.tape.finish(at, response.StatusCode, data)
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

func (i *incarnation) crash() {
	i.dead.Store(true)
	i.die()
}

// begin records a request and decides what happens to it.
func (t *tape) begin(r Record, incarnation int) (at int, fault Kind) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.Seq, r.Incarnation = len(t.records), incarnation
	if r.Write {
		r.Before = t.version(Key{r.Resource, r.Name})
		t.writes++
		r.K, t.lastWrite = t.writes, time.Now()
		r.Fault = t.decide(r)
	}
	t.records = append(t.records, r)
	return r.Seq, r.Fault
}

func (t *tape) decide(r Record) Kind {
	switch {
	case t.plan.Write == 0:
		return None
	case t.triggered.IsZero() && r.K == t.plan.Write:
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

func (t *tape) finish(at, code int, body []byte) {
	_, version := identity(body)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lastWrite = time.Now()
	t.records[at].Code, t.records[at].RV = code, version
}

// answered notes what became of a read.
func (t *tape) answered(at, code int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.records[at].Code = code
}

// quietFor is the time since the last write.
func (t *tape) quietFor() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Since(t.lastWrite)
}

// written copies the writes so far, in the order in which they began.
func (t *tape) written() []Record { return t.recorded(func(r Record) bool { return r.Write }) }

func (t *tape) recorded(want func(Record) bool) []Record {
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

// fault returns the write that the fault happened to, and when: never is the zero time.
func (t *tape) fault() (Record, time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.target, t.triggered
}

// behind is how long the cache of a kind has to wait for its news.
func (t *tape) behind(resource schema.GroupVersionResource) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if resource != t.target.Resource {
		return 0
	}
	return time.Until(t.staleUntil)
}

// watchBody is the stream of a watch, which arrives late while the plan keeps the cache stale.
type watchBody struct {
	io.ReadCloser

	tape     *tape
	resource schema.GroupVersionResource
	done     <-chan struct{}
}

func (w *watchBody) Read(into []byte) (int, error) {
	n, err := w.ReadCloser.Read(into)
	for late := w.tape.behind(w.resource); late > 0 && err == nil; late = w.tape.behind(w.resource) {
		select {
		case <-time.After(late):
		case <-w.done:
			return n, err
		}
	}
	return n, err
}
