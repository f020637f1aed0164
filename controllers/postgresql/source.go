package postgresql

import (
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/conditions"
)

// sourceSecrets is what opens the server that the first data are a copy of: the named keys of users' own Secrets and nothing else of
// them. The kubelet reads them, so the operator need not. They may come later than the pod, and be gone when later pods start.
func sourceSecrets(from *databasev1alpha1.PostgreSQLPgBasebackup) *corev1ac.ProjectedVolumeSourceApplyConfiguration {
	out := corev1ac.ProjectedVolumeSource().WithDefaultMode(secretMode)
	add := func(name string, keys ...[2]string) {
		secret := corev1ac.SecretProjection().WithName(name).WithOptional(true)
		for _, k := range keys {
			secret.WithItems(corev1ac.KeyToPath().WithKey(k[0]).WithPath(k[1]))
		}
		out.WithSources(corev1ac.VolumeProjection().WithSecret(secret))
	}
	if ref := from.PasswordSecret; ref != nil {
		add(ref.Name, [2]string{ref.KeyOr("password"), "password"})
	}
	if ref := from.CASecret; ref != nil {
		add(ref.Name, [2]string{ref.KeyOr("ca.crt"), "ca.crt"})
	}
	if ref := from.ClientCertificateSecret; ref != nil {
		add(ref.Name, [2]string{"tls.crt", "tls.crt"}, [2]string{"tls.key", "tls.key"})
	}
	return out
}

// copyBlocked says that an instance can't copy the server that the first data are to be a copy of.
func copyBlocked(in *instance) bool {
	return in.status != nil && !in.status.Ready && in.status.Reason != "" && in.status.Reason != databasev1alpha1.ReasonCopying
}

// copyState is what an instance says of that server; ok is false when it says nothing.
func copyState(pg *databasev1alpha1.PostgreSQL, in *instance) (v conditions.State, ok bool) {
	switch {
	case copyBlocked(in):
		return conditions.False(in.status.Reason, notReady(pg, in)), true
	case in.status != nil && !in.status.Ready && in.status.Reason != "":
		return conditions.False(in.status.Reason, in.name+" "+in.status.Message), true
	}
	return v, false
}
