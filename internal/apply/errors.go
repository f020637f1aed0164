package apply

import (
	"context"
	"errors"
	"fmt"
	"net"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

// ConflictError reports that an object which the owner does not control has the name of one of its children. The object was not changed.
type ConflictError struct {
	// OwnerKind is the kind of the owner of the child.
	OwnerKind string
	// GVK, Namespace and Name identify the conflicting object.
	GVK       schema.GroupVersionKind
	Namespace string
	Name      string
	// Controller is the kind and name of its controller, "" if it has none.
	Controller string
}

// Error names the conflicting object and the remedy.
func (e *ConflictError) Error() string {
	by := ""
	if e.Controller != "" {
		by = fmt.Sprintf(" (controlled by %s)", e.Controller)
	}
	return fmt.Sprintf("%[1]s %[2]q exists and is not controlled by this %[3]s%[4]s: rename the %[3]s or remove the %[1]s",
		e.GVK.Kind, e.Name, e.OwnerKind, by)
}

// WriteError names the write that the API server rejected. Unwrap returns the API server's error, so apierrors.IsInvalid and similar
// functions work on a WriteError.
type WriteError struct {
	// Verb is "apply", "create" or "delete".
	Verb      string
	GVK       schema.GroupVersionKind
	Namespace string
	Name      string
	Err       error
}

// Error names the object before the reason.
func (e *WriteError) Error() string {
	return fmt.Sprintf("%s %s %q: %v", e.Verb, e.GVK.Kind, e.Name, e.Err)
}

// Unwrap returns the API server's error.
func (e *WriteError) Unwrap() error { return e.Err }

// Rejected reports whether err concerns only the written object, as validation, admission, quota and missing permissions do. Other objects
// may still be written. Any other error (no connection, timeout) concerns them too. A rejection by admission looks like one by validation:
// a ValidatingAdmissionPolicy also answers Invalid, and a webhook may return any status.
func Rejected(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// Transient reports whether err needs no condition: the retry succeeds, or the namespace is being deleted together with the owner.
func Transient(err error) bool {
	switch ErrorType(err) {
	case typeConflict, typeThrottled, typeTimeout:
		return true
	}
	return errors.Is(err, context.Canceled) || NamespaceTerminates(err)
}

// Values of the label type of <kind>_errors_total.
const (
	typeConflict  = "conflict"
	typeThrottled = "throttled"
	typeTimeout   = "timeout"
)

// ErrorType classifies err for use as a label of metrics.
func ErrorType(err error) string {
	network, ok := errors.AsType[net.Error](err)
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return typeConflict
	case Rejected(err) && !apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err), apierrors.IsNotAcceptable(err), apierrors.IsUnsupportedMediaType(err):
		return "invalid"
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return "forbidden"
	case apierrors.IsTooManyRequests(err):
		return typeThrottled
	case apierrors.IsTimeout(err), apierrors.IsServerTimeout(err), errors.Is(err, context.DeadlineExceeded), ok && network.Timeout():
		return typeTimeout
	}
	return "other"
}

// NamespaceTerminates reports whether a child was not created because its namespace is being deleted.
func NamespaceTerminates(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// Reason returns the reason of a condition that is False because of err, a failed write of a child.
func Reason(err error) string {
	_, conflict := errors.AsType[*ConflictError](err)
	switch {
	case conflict:
		return fettlev1.ReasonNameConflict
	case apierrors.IsRequestEntityTooLargeError(err):
		return fettlev1.ReasonTooLarge
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return fettlev1.ReasonInvalid
	case apierrors.IsForbidden(err):
		return fettlev1.ReasonForbidden
	default:
		return fettlev1.ReasonWriteFailed
	}
}
