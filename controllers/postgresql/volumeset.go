package postgresql

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// All instances use volumes of one number, which the annotation fettle.dev/volumes names. For another number, the instances are stopped,
// the StatefulSet is re-created with the other claim template, and the Lease is reset. What holds:
//
//  1. The StatefulSet is deleted only after the API server showed no pod: pods never use volumes of two numbers.
//  2. The Lease says which volumes it is about, and is reset before the first pod of others is created: no instance is elected by
//     the record of other data.
//  3. Volumes without data are used only for a restore in place, or by a PostgreSQL that has none at all.
//  4. No claim is deleted.

// volumesError says why no instance is started on volumes.
type volumesError struct{ message string }

func (e *volumesError) Error() string { return e.message }

// presentVolumes is the number of the volumes that the instances use: those of the StatefulSet, or of its pods while it is re-created.
// Without instances it is the requested one.
func presentVolumes(pg *databasev1alpha1.PostgreSQL, c *cluster, pods []corev1.Pod) int {
	if c.set != nil && len(c.set.Spec.VolumeClaimTemplates) > 0 {
		template := c.set.Spec.VolumeClaimTemplates[0].Name
		if number, _, ok := agentapi.ParseClaim(pg.Name, template+"-"+agentapi.Pod(pg.Name, 0)); ok {
			return number
		}
	}
	for i := range pods {
		if number := podVolumes(pg, &pods[i]); number > 0 && c.set == nil && !formerPod(&pods[i], nil) {
			return number
		}
	}
	if number, ok := pg.RequestedVolumes(); ok {
		return number
	}
	return 1
}

// podVolumes is the number of the volumes that a pod uses; 0 if it has none.
func podVolumes(pg *databasev1alpha1.PostgreSQL, pod *corev1.Pod) int {
	for i := range pod.Spec.Volumes {
		if source := pod.Spec.Volumes[i].PersistentVolumeClaim; source != nil {
			if number, _, ok := agentapi.ParseClaim(pg.Name, source.ClaimName); ok {
				return number
			}
		}
	}
	return 0
}

// isRestored reports whether a Restore restores pg in place.
func isRestored(pg *databasev1alpha1.PostgreSQL) bool {
	return pg.Annotations[databasev1alpha1.AnnotationRecovery] != ""
}

// volumeSwitch decides about a request for other volumes while there is a StatefulSet: switching has all instances stopped, and blocked is
// why the present volumes stay. exist reports whether the requested volumes have claims.
func volumeSwitch(pg *databasev1alpha1.PostgreSQL, c *cluster, exist bool) (switching bool, blocked string) {
	number, ok := pg.RequestedVolumes()
	switch {
	case c.set == nil, pg.Spec.Paused:
		return false, "" // what is there is re-created first
	case !ok:
		return false, invalidVolumes(pg)
	case number == c.volumes:
		return false, ""
	case isRestored(pg) && exist:
		return false, fmt.Sprintf("the annotation %s asks for a restore to the volumes %d, which exist: delete the PVC %s, or the Restore",
			databasev1alpha1.AnnotationRecovery, number, agentapi.Claim(pg.Name, number, 0))
	case !isRestored(pg) && !exist:
		return false, noVolumes(pg, number)
	}
	return true, ""
}

func invalidVolumes(pg *databasev1alpha1.PostgreSQL) string {
	return fmt.Sprintf("the annotation %s is %q: set it to a number from 1 to 999", databasev1alpha1.AnnotationVolumes,
		conditions.Clip(pg.Annotations[databasev1alpha1.AnnotationVolumes], maxInstanceMessage))
}

func noVolumes(pg *databasev1alpha1.PostgreSQL, number int) string {
	return fmt.Sprintf("the volumes %d have no PVC: create the PVC %s with data, or set the annotation %s to the number of volumes that exist",
		number, agentapi.Claim(pg.Name, number, 0), databasev1alpha1.AnnotationVolumes)
}

// mayStartOn returns why the first instance may not be started on these volumes; nil if it may. existing are the volumes that have claims.
func mayStartOn(pg *databasev1alpha1.PostgreSQL, volumes int, existing map[int]bool) error {
	others := []string{}
	for number, exist := range existing {
		if exist && number != volumes {
			others = append(others, fmt.Sprint(number))
		}
	}
	slices.Sort(others)
	_, named := pg.Annotations[databasev1alpha1.AnnotationVolumes]
	_, ok := pg.RequestedVolumes()
	switch {
	case !ok:
		return &volumesError{invalidVolumes(pg)}
	case len(others) > 0 && !existing[volumes] && !isRestored(pg):
		return &volumesError{fmt.Sprintf("%s; those with PVCs: %s", noVolumes(pg, volumes), strings.Join(others, ", "))}
	case len(others) > 0 && !named:
		return &volumesError{fmt.Sprintf("there are PVCs of several volumes of this name: 1, %s: set the annotation %s to the number of those to use",
			strings.Join(others, ", "), databasev1alpha1.AnnotationVolumes)}
	}
	return nil
}

// restoredBy is what new volumes are restored from; nil for spec.bootstrap, or where they have data.
func restoredBy(pg *databasev1alpha1.PostgreSQL, in *inputs, exist bool) (*databasev1alpha1.PostgreSQLRecovery, error) {
	name, _ := pg.RestoredBy()
	switch {
	case name == "":
		return nil, nil //nolint:nilnil // spec.bootstrap applies
	case in.restore == nil:
		return nil, &volumesError{fmt.Sprintf("Restore %q does not exist, has ended, or has no Physical backup: set the annotation %s to the volumes to return to, and remove the annotation %s",
			name, databasev1alpha1.AnnotationVolumes, databasev1alpha1.AnnotationRecovery)}
	case exist:
		return nil, &volumesError{fmt.Sprintf("the volumes %d that Restore %q restores to exist: delete their PVCs, or the Restore", in.cluster.volumes, name)}
	}
	return in.restore, nil
}

// decideVolumes finds out whether the instances are to use other volumes. The API server is asked for the claims: those that people have made
// lack Fettle's labels.
func (r *Reconciler) decideVolumes(ctx context.Context, pg *databasev1alpha1.PostgreSQL, c *cluster) error {
	number, ok := pg.RequestedVolumes()
	exist := false
	if ok && c.set != nil && number != c.volumes {
		claims, err := r.liveClaims(ctx, pg)
		if err != nil {
			return err
		}
		exist = slices.ContainsFunc(claims, func(claim metav1.PartialObjectMetadata) bool {
			volumes, _, _ := parseClaim(pg, claim.Name)
			return volumes == number && !isTerminating(pg, &claim)
		})
	}
	c.switching, c.volumesBlocked = volumeSwitch(pg, c, exist)
	return nil
}

// stopForVolumes takes the pods away when no server runs in them any more, as hibernate does. An agent that knows of no other volumes does not
// stop its server before it is asked to exit.
func stopForVolumes(pg *databasev1alpha1.PostgreSQL, c *cluster) (int, Step) {
	for _, in := range c.running() {
		if c.size() > 0 && in.mayRun() && !in.copiesData() && (in.status == nil || in.status.Volumes > 0) {
			return c.size(), wait(databasev1alpha1.ReasonVolumesSwitching, "%s is being stopped: %s", in.name, switchingVolumes(pg))
		}
	}
	return 0, wait(databasev1alpha1.ReasonVolumesSwitching, "%s", switchingVolumes(pg))
}

func switchingVolumes(pg *databasev1alpha1.PostgreSQL) string {
	number, _ := pg.RequestedVolumes()
	return fmt.Sprintf("all instances are stopped, to start with the volumes %d that the annotation %s names", number, databasev1alpha1.AnnotationVolumes)
}

// stoppedForVolumes reports whether the StatefulSet can be re-created for other volumes. Before its controller has seen that it
// wants no pods, it may still create one.
func (c *cluster) stoppedForVolumes() bool {
	return c.switching && c.size() == 0 && len(c.running()) == 0 &&
		(c.set.DeletionTimestamp != nil || c.set.Status.ObservedGeneration >= c.set.Generation)
}

// replaceForVolumes deletes the StatefulSet when all pods are gone. The next reconcile re-creates it with the other volumes.
func (r *Reconciler) replaceForVolumes(ctx context.Context, pg *databasev1alpha1.PostgreSQL, c *cluster) error {
	if !c.stoppedForVolumes() || c.set.DeletionTimestamp != nil {
		return nil
	}
	if left, err := r.podLeft(ctx, pg); err != nil || left != "" {
		return err // its deletion triggers the next reconcile
	}
	number, _ := pg.RequestedVolumes()
	r.Events.Eventf(pg, nil, corev1.EventTypeNormal, "VolumesSwitched", "Reconcile", "all instances are stopped: they start with the volumes %d instead of %d",
		number, c.volumes)
	return r.deleteKeepingPods(ctx, pg, c.set)
}

// podLeft is the name of a pod of an instance that the API server shows; "" for none.
func (r *Reconciler) podLeft(ctx context.Context, pg *databasev1alpha1.PostgreSQL) (string, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := r.Live.List(ctx, list, client.InNamespace(pg.Namespace)); err != nil {
		return "", fmt.Errorf("list pods: %w", err)
	}
	for i := range list.Items {
		if _, ok := agentapi.Ordinal(pg.Name, list.Items[i].Name); ok {
			return list.Items[i].Name, nil
		}
	}
	return "", nil
}

// keptVolumes tells of the claims of other volumes, which nothing uses; empty where there are none.
func keptVolumes(c *cluster) string {
	if len(c.otherClaims) == 0 {
		return ""
	}
	return "; these PVCs of other volumes are kept, and can be deleted: " + strings.Join(c.otherClaims, " ")
}
