package apply

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ConflictError says that an object which the owner does not control has the name that one of
// its children needs. The object was not changed.
type ConflictError struct {
	// OwnerKind is the kind of the object that wanted the child.
	OwnerKind string
	// GVK, Namespace and Name say which object is in the way.
	GVK       schema.GroupVersionKind
	Namespace string
	Name      string
	// Controller is the kind and name of what controls it, "" when nothing does.
	Controller string
}

// Error says which object is in the way and what to do about it.
func (e *ConflictError) Error() string {
	by := ""
	if e.Controller != "" {
		by = fmt.Sprintf(" (controlled by %s)", e.Controller)
	}
	return fmt.Sprintf("%[1]s %[2]q exists and is not controlled by this %[3]s%[4]s: rename the %[3]s or remove the %[1]s",
		e.GVK.Kind, e.Name, e.OwnerKind, by)
}

// WriteError says which write the API server did not carry out. Unwrap gives its error, so
// that apierrors.IsInvalid and the like work on a WriteError.
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

// concernsOneObject reports whether err says something about the one object that was written:
// the others may still be written. Anything else (no connection, no time left) concerns them too.
func concernsOneObject(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)
}
