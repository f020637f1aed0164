package postgresql

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

// userSecret is a user's own Secret with the password of a role.
type userSecret struct {
	role  string
	field string
	ref   *fettlev1.SecretKeyReference
}

// userSecretsOf lists the users' own Secrets that the spec refers to, that of the owner first.
func userSecretsOf(pg *databasev1alpha1.PostgreSQL) (out []userSecret) {
	if ref := pg.Spec.Owner.PasswordSecret; ref != nil {
		out = append(out, userSecret{string(pg.Spec.OwnerName()), "spec.owner", ref})
	}
	for i := range pg.Spec.Roles {
		if role := &pg.Spec.Roles[i]; logsIn(role) && role.PasswordSecret != nil {
			out = append(out, userSecret{string(role.Name), "spec.roles", role.PasswordSecret})
		}
	}
	return out
}

// missing says what is wrong where the Secret or its key does not exist.
func (u userSecret) missing(pg *databasev1alpha1.PostgreSQL) string {
	return fmt.Sprintf("%s: Secret %q in namespace %q does not exist, or has no password under its key %q: create it, or remove passwordSecret",
		u.field, u.ref.Name, pg.Namespace, u.ref.KeyOr(keyPassword))
}

// userPassword reads a password from a user's own Secret; "" where the Secret or the key does not exist.
func (r *Reconciler) userPassword(ctx context.Context, pg *databasev1alpha1.PostgreSQL, ref *fettlev1.SecretKeyReference) (string, error) {
	s := &corev1.Secret{}
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: pg.Namespace, Name: ref.Name}, s); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("get Secret %q: %w", ref.Name, err)
	}
	return string(s.Data[ref.KeyOr(keyPassword)]), nil
}

// copyPassword decides which password the Secret of credentials should have: that of the user's own Secret, which is read when its
// version changes. While that Secret is missing, the Secret of credentials stays as it is.
func (r *Reconciler) copyPassword(ctx context.Context, pg *databasev1alpha1.PostgreSQL, in *inputs, c *credential, live *corev1.Secret) error {
	if live != nil {
		c.rotation, c.copiedFrom = rotation{password: string(live.Data[keyPassword]), done: rotationOf(c.role, live).done}, live.Annotations[annotationCopiedFrom]
	}
	p, exists := in.passwords[c.role]
	from := fmt.Sprintf("%s/%s@%s", c.source.Name, c.source.KeyOr(keyPassword), p.version)
	if !exists || from == c.copiedFrom {
		return nil
	}
	value, err := r.userPassword(ctx, pg, c.source)
	if err != nil {
		return err
	}
	if value == "" {
		in.secretMissing = userSecret{c.role, "spec.owner", c.source}.missing(pg)
		return nil
	}
	c.password, c.copiedFrom = value, from
	return nil
}
