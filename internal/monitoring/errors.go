package monitoring

import (
	"context"
	"errors"
	"net"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Values of the label type of <kind>_errors_total.
const (
	errorConflict  = "conflict"
	errorInvalid   = "invalid"
	errorForbidden = "forbidden"
	errorThrottled = "throttled"
	errorTimeout   = "timeout"
	errorOther     = "other"
)

// ErrorType classifies an error for use as a label.
func ErrorType(err error) string {
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return errorConflict
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err),
		apierrors.IsMethodNotSupported(err), apierrors.IsNotAcceptable(err), apierrors.IsUnsupportedMediaType(err):
		return errorInvalid
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return errorForbidden
	case apierrors.IsTooManyRequests(err):
		return errorThrottled
	case isTimeout(err):
		return errorTimeout
	default:
		return errorOther
	}
}

func isTimeout(err error) bool {
	if apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	network, ok := errors.AsType[net.Error](err)
	return ok && network.Timeout()
}
