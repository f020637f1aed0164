package postgresql

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

// checkTokens notes the instances whose token is of a ServiceAccount that was deleted. The agent says that the API server
// refuses it, which may pass; that the pod is older than the ServiceAccount, which is of the same name, says that it will not.
func (r *Reconciler) checkTokens(ctx context.Context, pg *databasev1alpha1.PostgreSQL, c *cluster) error {
	refused := func(i instance) bool { return i.pod != nil && i.status != nil && i.status.Unauthorized }
	if !slices.ContainsFunc(c.instances, refused) {
		return nil
	}
	account := &corev1.ServiceAccount{}
	switch err := r.Client.Get(ctx, client.ObjectKeyFromObject(pg), account); {
	case apierrors.IsNotFound(err):
		return nil // a new pod would not be let in either
	case err != nil:
		return fmt.Errorf("get ServiceAccount: %w", err)
	}
	for i := range c.instances {
		in := &c.instances[i]
		in.tokenRevoked = refused(*in) && in.pod.CreationTimestamp.Before(&account.CreationTimestamp)
	}
	return nil
}

// replaceRevokedToken replaces an instance that can't serve with the token that it has: only a new pod gets one of the present ServiceAccount
// at once. One that is ready is left alone, because replacing it would cause a failover.
func replaceRevokedToken(c *cluster) Step {
	for i := range c.instances {
		if in := &c.instances[i]; in.tokenRevoked && !in.ready() && !in.fenced && !in.terminating() {
			return replace(in, "its token belongs to a deleted ServiceAccount, and it is not ready")
		}
	}
	return Step{}
}
