package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/fettle-dev/fettle/internal/postgres/election"
)

// Annotations of the Lease.
const (
	// AnnotationRecord is an election.Lease in JSON. The holder itself is in spec.holderIdentity.
	AnnotationRecord = "fettle.dev/record"
	// AnnotationFresh is "true" on the Lease of a cluster that was created when none of its volumes existed. Only the operator
	// sets it, when it creates the Lease. Then no existing data can conflict with initdb.
	AnnotationFresh = "fettle.dev/fresh"
)

// Outcomes of a write that did not succeed, for errors.Is.
var (
	// errRejected means that the write was certainly not applied: another client wrote in between, or the API server rejected it.
	errRejected = errors.New("update was rejected")
	// errIndeterminate means that there was no answer, or one that proves nothing. The write may have been applied.
	errIndeterminate = errors.New("outcome is unknown")
)

// leaseRecord is the Lease as it was read. Its Version is "" if there is none.
type leaseRecord struct {
	election.Lease

	// Fresh is AnnotationFresh.
	Fresh bool

	object *coordinationv1.Lease
}

// leaseClient reads and writes one Lease.
type leaseClient struct {
	api             rest.Interface
	watched         rest.Interface
	namespace, name string
	// lastRead is the Lease as of the last read; nil before.
	lastRead atomic.Pointer[coordinationv1.Lease]
}

// request is sent once. The loop decides about another try.
func (c *leaseClient) request(verb string) *rest.Request {
	return c.api.Verb(verb).Namespace(c.namespace).Resource("leases").Name(c.name).MaxRetries(0)
}

// Read reads the Lease. errRejected means that the API server answered, but not with the Lease.
func (c *leaseClient) Read(ctx context.Context) (*leaseRecord, error) {
	object := &coordinationv1.Lease{}
	err := c.request(http.MethodGet).Do(ctx).Into(object)
	switch {
	case c.isAbsent(err):
		return &leaseRecord{object: c.lastRead.Load()}, nil
	case err != nil:
		return nil, c.explain("read", err)
	}
	c.lastRead.Store(recreation(object))
	return recordOf(object)
}

// isAbsent distinguishes an answer about this Lease from one of a server that does not know Leases.
func (c *leaseClient) isAbsent(err error) bool {
	refusal, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && apierrors.IsNotFound(err) && refusal.ErrStatus.Details != nil && refusal.ErrStatus.Details.Name == c.name &&
		c.lastRead.Load() != nil
}

// recreation is the object that creates a deleted Lease again: its former content, as a new object of the same owner.
func recreation(object *coordinationv1.Lease) *coordinationv1.Lease {
	out := &coordinationv1.Lease{TypeMeta: object.TypeMeta, Spec: *object.Spec.DeepCopy()}
	out.Name, out.Namespace, out.Labels, out.Annotations = object.Name, object.Namespace, maps.Clone(object.Labels), maps.Clone(object.Annotations)
	delete(out.Annotations, AnnotationFresh)
	for _, owner := range object.OwnerReferences {
		owner.BlockOwnerDeletion = nil // setting it requires permission to change the owner
		out.OwnerReferences = append(out.OwnerReferences, owner)
	}
	return out
}

// Write replaces the Lease that was read, if no other client wrote in between. A Lease that is absent is created, if no other
// client created it. Both are a PUT, which the API server treats as a creation if there is no such Lease: unlike a POST, RBAC can
// allow it by name.
func (c *leaseClient) Write(ctx context.Context, read *leaseRecord, lease election.Lease, valid time.Duration) (*leaseRecord, error) {
	object := read.object.DeepCopy()
	if err := fill(object, lease, valid, metav1.NowMicro()); err != nil {
		return nil, fmt.Errorf("%w: %w", errRejected, err)
	}
	written := &coordinationv1.Lease{}
	if err := c.request(http.MethodPut).Body(object).Do(ctx).Into(written); err != nil {
		return nil, c.explain("write", err)
	}
	record, err := recordOf(written)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errIndeterminate, err)
	}
	return record, nil
}

// explain distinguishes an answer from silence. What the API server's storage could not do may still happen.
func (c *leaseClient) explain(what string, err error) error {
	kind := errIndeterminate
	if refusal, ok := errors.AsType[*apierrors.StatusError](err); ok {
		code := refusal.ErrStatus.Code
		if code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusTooManyRequests && code != http.StatusRequestTimeout {
			kind = errRejected
		}
	}
	return fmt.Errorf("%s Lease %s: %w: %w", what, c.name, kind, err)
}

// Watch calls changed whenever the Lease may have changed, with true if it was deleted. It only saves time: only reads count.
func (c *leaseClient) Watch(ctx context.Context, changed func(deleted bool)) error {
	return watchOne(ctx, c.watched.Get().Namespace(c.namespace).Resource("leases"), c.name, "0", func(event watch.Event) bool {
		changed(event.Type == watch.Deleted)
		return true
	})
}

func recordOf(object *coordinationv1.Lease) (*leaseRecord, error) {
	out := &leaseRecord{Fresh: object.Annotations[AnnotationFresh] == "true", object: object}
	if text := object.Annotations[AnnotationRecord]; text != "" {
		if err := json.Unmarshal([]byte(text), &out.Lease); err != nil {
			return nil, fmt.Errorf("annotation %s of Lease %s: %w", AnnotationRecord, object.Name, err)
		}
	}
	// The operator removes a holder that is proven dead, and leaves the record. A re-created Lease has no record. If its holder re-created
	// it, the write may have arrived late, and the death of that holder proves nothing about the next one.
	out.Released = out.Released || object.Annotations[AnnotationRecord] != "" && !out.Recreated
	out.Holder = election.Holder{}
	if object.Spec.HolderIdentity != nil && *object.Spec.HolderIdentity != "" {
		name, uid, _ := strings.Cut(*object.Spec.HolderIdentity, "/")
		out.Holder, out.Released = election.Holder{Name: name, UID: uid}, false
	}
	out.Version = object.ResourceVersion
	return out, nil
}

// fill writes the record. The times are for people.
func fill(object *coordinationv1.Lease, lease election.Lease, valid time.Duration, at metav1.MicroTime) error {
	record, err := json.Marshal(lease)
	if err != nil {
		return fmt.Errorf("record of the Lease: %w", err)
	}
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, AnnotationRecord, string(record))
	object.Spec.RenewTime = &at
	if lease.Holder == (election.Holder{}) {
		object.Spec.HolderIdentity = nil
		return nil
	}
	holder := lease.Holder.Name + "/" + lease.Holder.UID
	if object.Spec.HolderIdentity == nil || *object.Spec.HolderIdentity != holder {
		transitions := int32(0)
		if object.Spec.LeaseTransitions != nil {
			transitions = *object.Spec.LeaseTransitions
		}
		object.Spec.AcquireTime, object.Spec.LeaseTransitions = &at, new(transitions+1)
	}
	object.Spec.HolderIdentity = &holder
	object.Spec.LeaseDurationSeconds = new(int32((valid + time.Second - 1) / time.Second))
	return nil
}
