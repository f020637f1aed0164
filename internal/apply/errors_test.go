package apply

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

// answered is the API server's response to a write of a child.
func answered(code int32, reason metav1.StatusReason, causes ...metav1.StatusCause) error {
	return &WriteError{Verb: "apply", Name: "web", Err: &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Details: &metav1.StatusDetails{Causes: causes},
	}}}
}

// Each response has one meaning for all kinds. None is final: the test covers the reported reason, and whether other children are still
// written.
func TestErrors(t *testing.T) {
	secret := schema.GroupResource{Resource: "secrets"}
	for name, tc := range map[string]struct {
		err       error
		transient bool
		rejected  bool
		reason    string
		label     string
	}{
		"an admission policy":             {answered(422, metav1.StatusReasonInvalid, metav1.StatusCause{Message: "denied"}), false, true, fettlev1.ReasonInvalid, "invalid"},
		"a webhook without a code":        {answered(400, ""), false, true, fettlev1.ReasonInvalid, "invalid"},
		"a webhook with a code":           {answered(403, metav1.StatusReasonForbidden), false, true, fettlev1.ReasonForbidden, "forbidden"},
		"an immutable field":              {answered(422, metav1.StatusReasonInvalid, metav1.StatusCause{Field: "spec.selector"}), false, true, fettlev1.ReasonInvalid, "invalid"},
		"a quota or a missing permission": {apierrors.NewForbidden(secret, "web", errors.New("exceeded quota")), false, true, fettlev1.ReasonForbidden, "forbidden"},
		"too large":                       {apierrors.NewRequestEntityTooLargeError("limit is 3145728"), false, true, fettlev1.ReasonTooLarge, "invalid"},
		"a foreign object":                {fmt.Errorf("apply: %w", &ConflictError{Name: "web"}), false, false, fettlev1.ReasonNameConflict, "other"},
		"a foreign object, and a quota":   {errors.Join(answered(403, metav1.StatusReasonForbidden), &ConflictError{}), false, true, fettlev1.ReasonNameConflict, "forbidden"},
		"an unreachable webhook":          {answered(500, metav1.StatusReasonInternalError), false, false, fettlev1.ReasonWriteFailed, "other"},
		"no connection":                   {errors.New("connection refused"), false, false, fettlev1.ReasonWriteFailed, "other"},
		"a concurrent change":             {answered(409, metav1.StatusReasonConflict), true, false, fettlev1.ReasonWriteFailed, "conflict"},
		"a concurrent creation":           {answered(409, metav1.StatusReasonAlreadyExists), true, false, fettlev1.ReasonWriteFailed, "conflict"},
		"throttled":                       {answered(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests), true, false, fettlev1.ReasonWriteFailed, "throttled"},
		"a timeout":                       {fmt.Errorf("apply: %w", context.DeadlineExceeded), true, false, fettlev1.ReasonWriteFailed, "timeout"},
		"a terminating namespace": {answered(403, metav1.StatusReasonForbidden, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause}),
			true, true, fettlev1.ReasonForbidden, "forbidden"},
		"no credentials":       {answered(401, metav1.StatusReasonUnauthorized), false, false, fettlev1.ReasonWriteFailed, "forbidden"},
		"an overloaded server": {apierrors.NewServerTimeout(secret, "get", 1), true, false, fettlev1.ReasonWriteFailed, "timeout"},
		"a slow connection":    {os.ErrDeadlineExceeded, true, false, fettlev1.ReasonWriteFailed, "timeout"},
	} {
		if got := Transient(tc.err); got != tc.transient {
			t.Errorf("%s: Transient is %t", name, got)
		}
		if got := Rejected(tc.err); got != tc.rejected {
			t.Errorf("%s: Rejected is %t", name, got)
		}
		if got := Reason(tc.err); got != tc.reason {
			t.Errorf("%s: Reason is %s, want %s", name, got, tc.reason)
		}
		if got := ErrorType(tc.err); got != tc.label {
			t.Errorf("%s: ErrorType is %s, want %s", name, got, tc.label)
		}
	}
	if Transient(nil) || Rejected(nil) {
		t.Error("nil counts as an error")
	}
}
