package postgresql

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/requeue"
)

// Persistent volume claims outlive a PostgreSQL, and people make them by hand, for example from a volume snapshot. What holds:
//
//  1. The Lease allows an empty database only if the API server itself, and not the cache, showed no claim for any instance.
//  2. A claim that an instance uses has Fettle's labels: without them the cache does not show it.
//  3. A claim that existed before the PostgreSQL and that no instance uses is marked before the Lease is created, so that
//     status tells of it until a person has decided.

// orphanedClaims are the PVCs of the present volumes with the mark of pg that none of its instances uses, now or after hibernation.
func orphanedClaims(
	pg *databasev1alpha1.PostgreSQL, volumes int, claims []corev1.PersistentVolumeClaim, used func(ordinal int) bool,
) []string {
	var names []string
	for i := range claims {
		c := &claims[i]
		set, ordinal, ok := parseClaim(pg, c.Name)
		if ok && set == volumes && c.Annotations[databasev1alpha1.AnnotationUnusedBy] == string(pg.UID) && !used(ordinal) && c.DeletionTimestamp == nil {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	return names
}

// parseClaim is the number of the volumes and of the instance that use a claim of that name; ok is false for other claims.
func parseClaim(pg *databasev1alpha1.PostgreSQL, name string) (volumes, ordinal int, ok bool) {
	volumes, ordinal, ok = agentapi.ParseClaim(pg.Name, name)
	return volumes, ordinal, ok && ordinal < maxInstances
}

// liveClaims lists the claims with the names of pg's instances, from the API server: those without Fettle's labels too.
func (r *Reconciler) liveClaims(ctx context.Context, pg *databasev1alpha1.PostgreSQL) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaimList"))
	if err := r.Live.List(ctx, list, client.InNamespace(pg.Namespace)); err != nil {
		return nil, fmt.Errorf("list PVCs: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(c metav1.PartialObjectMetadata) bool {
		_, _, ours := parseClaim(pg, c.Name)
		return !ours
	}), nil
}

// claimTerminatingError says that the volume of a former PostgreSQL of this name is still being deleted: whatever starts on it
// would lose its data.
type claimTerminatingError struct{ name string }

func (e *claimTerminatingError) Error() string {
	return fmt.Sprintf("PVC %q of a deleted PostgreSQL of this name is still being deleted; the instances start afterwards. "+
		"If it takes long, see kubectl describe pvc %s", e.name, e.name)
}

// isTerminating reports whether a claim is being deleted, or is about to be because its owner is gone.
func isTerminating(pg *databasev1alpha1.PostgreSQL, claim *metav1.PartialObjectMetadata) bool {
	return claim.DeletionTimestamp != nil || slices.ContainsFunc(claim.OwnerReferences, func(o metav1.OwnerReference) bool {
		return (o.Kind == ownerKind || o.Kind == "StatefulSet") && o.UID != pg.UID
	})
}

// adoptExistingClaims takes stock of the claims that exist before the first instance starts on these volumes: those that instances will use
// become Fettle's, and the others are marked. It reports whether there are any. Claims of other volumes stay as they are.
func (r *Reconciler) adoptExistingClaims(ctx context.Context, pg *databasev1alpha1.PostgreSQL, volumes int) (found bool, err error) {
	all, err := r.liveClaims(ctx, pg)
	if err != nil {
		return false, err
	}
	var claims []metav1.PartialObjectMetadata
	existing := map[int]bool{}
	for _, claim := range all {
		set, _, _ := parseClaim(pg, claim.Name)
		if set == volumes {
			claims = append(claims, claim)
		}
		existing[set] = existing[set] || !isTerminating(pg, &claim)
	}
	for i := range claims {
		if isTerminating(pg, &claims[i]) {
			return false, &claimTerminatingError{claims[i].Name}
		}
	}
	if err := mayStartOn(pg, volumes, existing); err != nil {
		return false, err
	}
	for i := range claims {
		claim := &claims[i]
		_, ordinal, _ := parseClaim(pg, claim.Name)
		mark := ""
		if ordinal >= replicas(pg) {
			mark = string(pg.UID)
		}
		if err := r.adopt(ctx, pg, claim, mark); err != nil {
			return false, err
		}
	}
	return len(claims) > 0, nil
}

// adopt gives a claim the labels by which the cache finds it, and the mark; an empty one is removed.
func (r *Reconciler) adopt(ctx context.Context, pg *databasev1alpha1.PostgreSQL, claim *metav1.PartialObjectMetadata, mark string) error {
	changed := claim.DeepCopy()
	changed.Labels = mergeMaps(claim.Labels, labels(pg))
	if in := pg.Inherited(); in != nil {
		changed.Labels, changed.Annotations = mergeMaps(changed.Labels, in.Labels), mergeMaps(changed.Annotations, in.Annotations)
	}
	delete(changed.Annotations, databasev1alpha1.AnnotationUnusedBy)
	if mark != "" {
		changed.Annotations = mergeMaps(changed.Annotations, map[string]string{databasev1alpha1.AnnotationUnusedBy: mark})
	}
	if maps.Equal(claim.Labels, changed.Labels) && maps.Equal(claim.Annotations, changed.Annotations) {
		return nil
	}
	changed.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
	patch := client.MergeFromWithOptions(claim, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, changed, patch, client.FieldOwner(controllerName)); err != nil {
		return fmt.Errorf("adopt PVC %q: %w", claim.Name, err)
	}
	return nil
}

// checkClaims is what memory knows a look at the claims by; cacheLag is how long the cache may take to show the claim of a new pod.
const (
	checkClaims = "claims"
	cacheLag    = 10 * time.Second
)

// adoptClaims adopts the PVCs of running instances that lack Fettle's labels, because a user has created them. A mark is removed
// from a claim that an instance uses by now. Claims inherit metadata here, because the template of claims is immutable.
func (r *Reconciler) adoptClaims(ctx context.Context, pg *databasev1alpha1.PostgreSQL, c *cluster) error {
	return requeue.IfOutdated(ctx, r.adoptUsed(ctx, pg, c))
}

func (r *Reconciler) adoptUsed(ctx context.Context, pg *databasev1alpha1.PostgreSQL, c *cluster) error {
	missing := false
	for _, in := range c.running() {
		if c.set == nil || !metav1.IsControlledBy(in.pod, c.set) {
			continue
		}
		switch {
		case in.claim == nil:
			missing = missing || r.Clock.Since(in.pod.CreationTimestamp.Time) > cacheLag
		case in.claim.Annotations[databasev1alpha1.AnnotationUnusedBy] != "", !inherits(pg, in.claim):
			if err := r.adopt(ctx, pg, &metav1.PartialObjectMetadata{ObjectMeta: in.claim.ObjectMeta}, ""); err != nil {
				return err
			}
		}
	}
	if !missing || !r.history.due(client.ObjectKeyFromObject(pg), checkClaims, restartRetry) {
		return nil
	}
	return r.adoptUnseen(ctx, pg, c)
}

// adoptUnseen asks the API server for the claims of running instances that the cache does not show, and adopts them.
func (r *Reconciler) adoptUnseen(ctx context.Context, pg *databasev1alpha1.PostgreSQL, c *cluster) error {
	claims, err := r.liveClaims(ctx, pg)
	if err != nil {
		return err
	}
	for i := range claims {
		if in := c.ofClaim(pg, claims[i].Name); in != nil && in.pod != nil && in.claim == nil {
			if err := r.adopt(ctx, pg, &claims[i], ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// ofClaim is the instance that uses the claim of that name; nil when none does.
func (c *cluster) ofClaim(pg *databasev1alpha1.PostgreSQL, name string) *instance {
	if set, ordinal, ok := parseClaim(pg, name); ok && set == c.volumes && ordinal < len(c.instances) {
		return &c.instances[ordinal]
	}
	return nil
}

// formerPod reports whether a pod belongs to the StatefulSet of a former PostgreSQL of this name. A pod without an owner belongs to
// the present one, which is being re-created with larger claims.
func formerPod(pod *corev1.Pod, set *k8sappsv1.StatefulSet) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && (set == nil || owner.UID != set.UID)
}
