package agent

import (
	"errors"
	"fmt"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fettle-dev/fettle/internal/postgres/election"
)

// TestStatus_tokenRejected sees that an agent whose token the API server refuses says so, until it is accepted again: nothing but
// another pod helps while it lasts.
func TestStatus_tokenRejected(t *testing.T) {
	a := &Agent{validator: &configValidator{}}
	leases := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	for i, c := range []struct {
		name string
		err  error
		want bool
	}{
		{"accepted", nil, false},
		{"refused", fmt.Errorf("read Lease db: %w: %w", errRejected, apierrors.NewUnauthorized("Unauthorized")), true},
		{"the right is missing", fmt.Errorf("read Lease db: %w: %w", errRejected, apierrors.NewForbidden(leases, "db", nil)), false},
		{"refused again", fmt.Errorf("read Lease db: %w: %w", errRejected, apierrors.NewUnauthorized("Unauthorized")), true},
		{"no answer", fmt.Errorf("read Lease db: %w: %w", errIndeterminate, errors.New("connection refused")), false},
	} {
		record := &leaseRecord{object: &coordinationv1.Lease{}}
		if c.err != nil {
			record = nil
		}
		a.recordLease(record, c.err, now())
		a.publish(election.Decision{Reason: "takes its own Lease back"}, election.Input{})
		shown := a.published.Load()
		if shown.Unauthorized != c.want || (shown.Message == tokenRejected) != c.want {
			t.Errorf("%d %s: unauthorized %v, %q, want %v", i, c.name, shown.Unauthorized, shown.Message, c.want)
		}
	}
}
