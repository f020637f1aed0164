package agent

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestIsPermanent_errors tells answers after which an agent that ends tries again from those after which it need not.
func TestIsPermanent_errors(t *testing.T) {
	leases := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	for _, c := range []struct {
		name string
		err  error
		want bool
	}{
		{"it succeeded", nil, false},
		{"somebody else wrote", apierrors.NewConflict(leases, "orders", errors.New("changed")), false},
		{"no answer", errors.New("connection refused"), false},
		{"the API server is busy", apierrors.NewTooManyRequests("later", 1), false},
		{"the Role is gone", apierrors.NewForbidden(leases, "orders", errors.New("no role")), true},
		{"the ServiceAccount is gone", apierrors.NewUnauthorized("no such account"), true},
		{"the Lease is gone", apierrors.NewNotFound(leases, "orders"), true},
	} {
		err := c.err
		if err != nil {
			err = fmt.Errorf("write Lease orders: %w: %w", errRejected, err)
		}
		if got := isPermanent(err); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
