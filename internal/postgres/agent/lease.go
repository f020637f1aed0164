package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/election"
)

// Annotations of the Lease.
const (
	// AnnotationRecord is an election.Lease in JSON. The holder itself is in spec.holderIdentity.
	AnnotationRecord = "fettle.dev/record"
	// AnnotationFresh is "true" on the Lease of a cluster that was created when none of its volumes existed. Only the operator
	// sets it, when it creates the Lease. Then no existing data can conflict with initdb.
	AnnotationFresh = "fettle.dev/fresh"
	// AnnotationVolumes is the number of the volumes that the Lease is about. Without it they are the first ones.
	AnnotationVolumes = "fettle.dev/volumes"
	// AnnotationRecovery is the PostgreSQLRecovery, in JSON, that the first data of new volumes are restored by, instead of
	// spec.bootstrap. It implies that none of the volumes can hold data. An agent that does not know it initializes nothing.
	AnnotationRecovery = "fettle.dev/recovery"
	// AnnotationAfterTimeline is the highest timeline that volumes of the PostgreSQL had used when the operator reset the Lease for
	// others. A promotion uses a higher one, because all volumes archive WAL to one place.
	AnnotationAfterTimeline = "fettle.dev/after-timeline"
)

// Outcomes of a write that did not succeed, for errors.Is.
var (
	// errRejected means that the write was certainly not applied: another client wrote in between, or the API server rejected it.
	errRejected = errors.New("update was rejected")
	// errIndeterminate means that there was no answer, or one that proves nothing. The write may have been applied.
	errIndeterminate = errors.New("outcome is unknown")
)

// leaseRecord is the Lease as it was read. Its Version is "" if there is none; only Volumes is known then.
type leaseRecord struct {
	election.Lease

	// Fresh is AnnotationFresh, Volumes is AnnotationVolumes, 1 without it, and AfterTimeline is AnnotationAfterTimeline.
	Fresh         bool
	Volumes       int
	AfterTimeline uint32
	// Recovery is AnnotationRecovery; "" without it.
	Recovery string

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
		last := c.lastRead.Load()
		return &leaseRecord{Volumes: LeaseVolumes(last), object: last}, nil // its deletion changes nothing about the volumes
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
	delete(out.Annotations, AnnotationRecovery)
	delete(out.Annotations, AnnotationAfterTimeline) // other instances may have used later ones since
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
	out := &leaseRecord{Recovery: object.Annotations[AnnotationRecovery], Volumes: LeaseVolumes(object), object: object}
	out.Fresh = object.Annotations[AnnotationFresh] == "true" || out.Recovery != ""
	if n, err := strconv.ParseUint(object.Annotations[AnnotationAfterTimeline], 10, 32); err == nil {
		out.AfterTimeline = uint32(n)
	}
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

// LeaseVolumes returns the number of the volumes that a Lease is about.
func LeaseVolumes(lease *coordinationv1.Lease) int {
	if n, err := strconv.Atoi(lease.Annotations[AnnotationVolumes]); err == nil {
		return n
	}
	return 1
}

// ResetLease makes a Lease one of other volumes, free for whoever is first. No agent of the former volumes may run. existing says that the
// volumes may hold data; otherwise they are filled by recovery, or by spec.bootstrap if that is nil. The Lease may be new.
func ResetLease(lease *coordinationv1.Lease, volumes int, existing bool, recovery *databasev1alpha1.PostgreSQLRecovery) error {
	former := leaseRecord{AfterTimeline: 0}
	if lease.ResourceVersion != "" {
		record, err := recordOf(lease)
		if err != nil {
			return err
		}
		former = *record
	}
	lease.Spec, lease.Annotations = coordinationv1.LeaseSpec{}, map[string]string{}
	if volumes != 1 {
		lease.Annotations[AnnotationVolumes] = strconv.Itoa(volumes)
	}
	if last := max(former.Timeline, former.AfterTimeline); last > 0 {
		lease.Annotations[AnnotationAfterTimeline] = strconv.FormatUint(uint64(last), 10)
	}
	switch {
	case recovery != nil:
		text, err := json.Marshal(recovery)
		if err != nil {
			return fmt.Errorf("recovery of Lease %s: %w", lease.Name, err)
		}
		lease.Annotations[AnnotationRecovery] = string(text)
	case !existing:
		lease.Annotations[AnnotationFresh] = "true"
	}
	return nil
}

// fill writes the record. The times are for people.
func fill(object *coordinationv1.Lease, lease election.Lease, valid time.Duration, at metav1.MicroTime) error {
	record, err := json.Marshal(lease)
	if err != nil {
		return fmt.Errorf("record of the Lease: %w", err)
	}
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, AnnotationRecord, string(record))
	if lease.Primary != "" {
		delete(object.Annotations, AnnotationRecovery) // it is done, and never repeated
	}
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
