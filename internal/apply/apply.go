package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/fettle-dev/fettle/internal/requeue"
)

// createOnly is a resourceVersion that no object has. An apply with this version creates the object or fails with a conflict. It never
// changes an existing object.
const createOnly = "1"

// Applier writes the objects that one controller owns. It is safe for concurrent use by the workers of that controller, with one worker at
// a time per owner.
type Applier struct {
	client       client.Client
	cache        cache.Cache
	live         client.Reader
	scheme       *runtime.Scheme
	fieldOwner   string
	expectations *Expectations
	mutations    mutations

	mu    sync.Mutex
	types map[schema.GroupVersionKind]objectType
}

// New returns an Applier that writes as fieldOwner. It reads the live children from mgr's cache. It uses mgr.GetAPIReader() only for
// the owner of a conflicting or missing object.
func New(mgr manager.Manager, fieldOwner string) (*Applier, error) {
	if fieldOwner == "" {
		return nil, errors.New("apply requires a field owner, such as the controller's name")
	}
	if _, err := builtin(); err != nil {
		return nil, err
	}
	return &Applier{
		client:       mgr.GetClient(),
		cache:        mgr.GetCache(),
		live:         mgr.GetAPIReader(),
		scheme:       mgr.GetScheme(),
		fieldOwner:   fieldOwner,
		expectations: NewExpectations(clock.RealClock{}),
		mutations:    newMutations(),
		types:        map[schema.GroupVersionKind]objectType{},
	}, nil
}

// Apply creates or updates the desired objects, in order, with owner as their controller. It skips objects that would not change and
// objects that are being deleted. It also skips objects whose last write the cache does not show yet, and objects of a former owner of the
// same name, which are about to be deleted, and missing objects of an owner that was deleted. The watch wakes the controller in these cases.
//
// A rejected object (a [ConflictError], or an error that is [Rejected]) does not block the objects after it; the errors are joined. Any
// other error ends the call.
func (a *Applier) Apply(ctx context.Context, owner client.Object, desired ...runtime.ApplyConfiguration) error {
	o, err := ownerOf(owner, a.scheme)
	if err != nil {
		return err
	}
	var rejected []error
	for _, config := range desired {
		d, err := render(config, o, a.scheme)
		if err != nil {
			return fmt.Errorf("apply: %w", err)
		}
		err = a.applyOne(ctx, o, d)
		var conflict *ConflictError
		switch {
		case err == nil:
		case errors.As(err, &conflict), Rejected(err):
			rejected = append(rejected, err)
		default:
			return errors.Join(append(rejected, err)...)
		}
	}
	return errors.Join(rejected...)
}

func (a *Applier) applyOne(ctx context.Context, o ownerRef, d *desiredObject) error {
	t, err := a.typeOf(d.gvk)
	if err != nil {
		return err
	}
	live, current, err := a.cached(ctx, d.id())
	switch {
	case err != nil:
		return fmt.Errorf("apply %s %q: %w", d.gvk.Kind, d.name.Name, err)
	case !current:
		return nil
	case live == nil:
		if gone, err := a.isGone(ctx, o); gone || err != nil {
			return err
		}
		return a.create(ctx, o, d, t)
	case live.GetDeletionTimestamp() != nil, o.isFormerOwners(live):
		return nil
	case !o.controls(live) && !isOrphan(live, d.own):
		return o.conflict(d.gvk, live)
	}
	paths, err := compare(d, live, t)
	if err != nil || len(paths) == 0 || a.mutations.always(d.id(), d.hash, paths) {
		return err
	}
	log.FromContext(ctx).V(1).Info("applying", "kind", d.gvk.Kind, "name", d.name.Name, "differs", paths)
	return a.update(ctx, o, d, t, live)
}

// Asked reports whether the cached copy of desired exists, is controlled by owner and was last applied with this content. Apply then only
// repairs what other clients changed.
func (a *Applier) Asked(ctx context.Context, owner client.Object, desired runtime.ApplyConfiguration) (bool, error) {
	o, err := ownerOf(owner, a.scheme)
	if err != nil {
		return false, err
	}
	d, err := render(desired, o, a.scheme)
	if err != nil {
		return false, fmt.Errorf("compare: %w", err)
	}
	live, current, err := a.cached(ctx, d.id())
	if err != nil {
		return false, fmt.Errorf("compare %s %q: %w", d.gvk.Kind, d.name.Name, err)
	}
	return current && live != nil && o.controls(live) && live.GetDeletionTimestamp() == nil && live.GetAnnotations()[hashAnnotation] == d.hash, nil
}

// isOrphan reports whether live is a child that has lost its owner reference: it has no controller, and it carries the hash annotation and
// the labels that Apply set.
func isOrphan(live client.Object, labels map[string]string) bool {
	return metav1.GetControllerOfNoCopy(live) == nil && live.GetAnnotations()[hashAnnotation] != "" &&
		len(labels) > 0 && hasLabels(live, labels)
}

func hasLabels(obj metav1.Object, labels map[string]string) bool {
	for k, v := range labels {
		if got, ok := obj.GetLabels()[k]; !ok || got != v {
			return false
		}
	}
	return true
}

func compare(d *desiredObject, live client.Object, t objectType) ([]string, error) {
	v, err := valueOf(live)
	if err != nil {
		return nil, fmt.Errorf("compare %s %q: %w", d.gvk.Kind, d.name.Name, err)
	}
	return differences(d.content, v, t), nil
}

// valueOf makes the fields of obj readable by name, without a copy.
func valueOf(obj client.Object) (value.Value, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return value.NewValueInterface(u.Object), nil
	}
	return value.NewValueReflect(obj)
}

// create applies an object that the cache does not hold.
func (a *Applier) create(ctx context.Context, o ownerRef, d *desiredObject, t objectType) error {
	err := a.write(ctx, o, d, t, precondition{version: createOnly})
	if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
		return err
	}
	live, readErr := a.conflictingObject(ctx, o, d.gvk, d.name)
	switch {
	case readErr != nil:
		return readErr
	case live == nil:
		return err // deleted again: retry
	case hasLabels(live, d.own):
		// It is ours, and the cache will show it.
		a.expectations.Wrote(o.name, d.id(), live.UID, live.ResourceVersion)
		return nil
	case live.DeletionTimestamp != nil:
		return err // ours, but the cache will not show its deletion: retry
	default:
		return a.write(ctx, o, d, t, precondition{uid: live.UID, version: live.ResourceVersion}, client.ForceOwnership)
	}
}

// update applies an object that differs from the cached copy.
func (a *Applier) update(ctx context.Context, o ownerRef, d *desiredObject, t objectType, live client.Object) error {
	write := func() error {
		return a.write(ctx, o, d, t, precondition{uid: live.GetUID(), cachedVersion: live.GetResourceVersion()}, client.ForceOwnership)
	}
	err := write()
	if err != nil && !isStale(err) {
		replaced, patchErr := a.replaceCollisions(ctx, d, t, live, err)
		switch {
		case replaced:
			err = write()
		case isStale(patchErr):
			err = patchErr
		}
	}
	if isStale(err) {
		requeue.Request(ctx) // replaced, deleted or changed; the watch may not report it
		return nil
	}
	return err
}

// isStale reports whether the API server rejected a write because the object was replaced or has another version. For a replaced object the
// API server reports that its UID is immutable.
func isStale(err error) bool {
	if apierrors.IsConflict(err) {
		return true
	}
	status := apierrors.APIStatus(nil)
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return c.Field == "metadata.uid"
	})
}

// precondition identifies the object that an apply is meant for.
type precondition struct {
	uid     types.UID
	version string
	// cachedVersion is the version in the cache. It is not sent.
	cachedVersion string
}

// write applies d and records the write, and whether the API server stored different values.
func (a *Applier) write(
	ctx context.Context, o ownerRef, d *desiredObject, t objectType, pre precondition, opts ...client.ApplyOption,
) error {
	u := &unstructured.Unstructured{Object: plain(d.content).(map[string]any)}
	if pre.uid != "" {
		u.SetUID(pre.uid)
	}
	if pre.version != "" {
		u.SetResourceVersion(pre.version)
	}
	opts = append(opts, client.FieldOwner(a.fieldOwner))
	if err := a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), opts...); err != nil {
		return &WriteError{Verb: "apply", GVK: d.gvk, Namespace: d.name.Namespace, Name: d.name.Name, Err: err}
	}
	if u.GetResourceVersion() != pre.cachedVersion {
		a.expectations.Wrote(o.name, d.id(), u.GetUID(), u.GetResourceVersion())
	}
	a.mutations.record(d.id(), d.hash, differences(d.content, value.NewValueInterface(u.Object), t))
	return nil
}
