package stack

import (
	"context"
	"fmt"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
	"github.com/fettle-dev/fettle/internal/stack/server"
)

// Read returns the state of the databases of an AppStack, by the names of their components.
func Read(ctx context.Context, reader client.Reader, s *platformv1.AppStack) (map[string]Existing, error) {
	all := map[string]Existing{}
	for i := range s.Spec.Components {
		c := &s.Spec.Components[i]
		if c.PostgreSQL == nil && c.MySQL == nil {
			continue
		}
		e, err := readOne(ctx, reader, c, client.ObjectKey{Namespace: s.Namespace, Name: Ref(s, c)})
		if err != nil {
			return nil, fmt.Errorf("component %s: %w", c.Name, err)
		}
		all[c.Name] = e
	}
	return all, nil
}

func readOne(ctx context.Context, reader client.Reader, c *platformv1.AppStackComponent, key client.ObjectKey) (e Existing, err error) {
	claim := &corev1.PersistentVolumeClaim{}
	err = reader.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: server.ClaimName(key.Name)}, claim)
	if client.IgnoreNotFound(err) != nil {
		return e, fmt.Errorf("get PersistentVolumeClaim: %w", err)
	}
	e.Storage = claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if c.PostgreSQL != nil {
		pg := &databasev1alpha1.PostgreSQL{}
		if err := reader.Get(ctx, key, pg); client.IgnoreNotFound(err) != nil {
			return e, fmt.Errorf("get PostgreSQL %q: %w", key.Name, err)
		}
		if pg.Spec.Storage.Cmp(e.Storage) > 0 {
			e.Storage = pg.Spec.Storage
		}
		return e, nil
	}
	set := &k8sappsv1.StatefulSet{}
	if err := reader.Get(ctx, key, set); client.IgnoreNotFound(err) != nil {
		return e, fmt.Errorf("get StatefulSet %q: %w", key.Name, err)
	}
	if len(set.Spec.VolumeClaimTemplates) > 0 {
		e.Template = &set.Spec.VolumeClaimTemplates[0]
	}
	return e, nil
}
