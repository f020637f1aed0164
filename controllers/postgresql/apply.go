package postgresql

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/optionalapi"
	"github.com/fettle-dev/fettle/internal/requeue"
)

// certificateSecrets returns the Secrets with certificates. They come first: without them no agent can be told from anybody else.
func certificateSecrets(pg *databasev1alpha1.PostgreSQL, in *inputs) []runtime.ApplyConfiguration {
	var objects []runtime.ApplyConfiguration
	for _, s := range in.certificates.secrets(pg) {
		objects = append(objects, s)
	}
	return objects
}

// desired returns what else should exist for pg, in the order in which it is applied: the pods need all that comes before them.
func desired(pg *databasev1alpha1.PostgreSQL, in *inputs, count int) []runtime.ApplyConfiguration {
	objects := []runtime.ApplyConfiguration{
		serviceAccount(pg, in.identity), role(pg, in), roleBinding(pg),
		service(pg, pg.Name, databasev1alpha1.LabelRolePrimary), service(pg, replicasService(pg), databasev1alpha1.LabelRoleReplica), headless(pg),
	}
	if wantsPDB(pg) {
		objects = append(objects, disruptionBudget(pg, 1+in.extraDisruptions))
	}
	if in.issued != nil && in.certificateAPI && !in.issued.foreign {
		objects = append(objects, certificateObject(pg))
	}
	if pg.Spec.Monitoring.Enabled && !in.monitoringMissing {
		objects = append(objects, podMonitor(pg), alertRules(pg, in.alerts))
	}
	if in.backup {
		objects = append(objects, backupObject(pg))
	}
	if in.growth.replaceSet || in.cluster.stoppedForVolumes() {
		return objects // it is deleted without its pods, and re-created afterwards
	}
	if rejectedPodTemplate(pg) == nil {
		objects = append(objects, statefulSet(pg, *in, count))
	}
	if wantsNetworkPolicy(pg) { // last: a policy of a user's that has its name is in the way of nothing else
		objects = append(objects, networkPolicy(pg, in.operatorNamespace))
	}
	return objects
}

// toPrune are children that may exist and should not.
func toPrune(pg *databasev1alpha1.PostgreSQL, in *inputs) []client.Object {
	var objects []client.Object
	meta := metav1.ObjectMeta{Name: pg.Name, Namespace: pg.Namespace}
	if !wantsNetworkPolicy(pg) {
		objects = append(objects, &networkingv1.NetworkPolicy{ObjectMeta: meta})
	}
	if !wantsPDB(pg) {
		objects = append(objects, &policyv1.PodDisruptionBudget{ObjectMeta: meta})
	}
	if in.issued == nil && in.certificateAPI {
		objects = append(objects, emptyCertificate(pg))
	}
	if !backsUp(pg) {
		objects = append(objects, &backupv1alpha1.Backup{ObjectMeta: meta}) // what is stored stays
	}
	if !pg.Spec.Monitoring.Enabled && !in.monitoringMissing {
		objects = append(objects, optionalapi.PodMonitor.Object(pg), optionalapi.PrometheusRule.Object(pg))
	}
	return objects
}

// apply writes what is desired and deletes what is not. The Lease and the passwords come first.
func (r *Reconciler) apply(ctx context.Context, pg *databasev1alpha1.PostgreSQL, in *inputs, count int) error {
	if in.cluster.set == nil {
		if err := r.createLease(ctx, pg, in); err != nil {
			return err
		}
	}
	var refused error
	for i := range in.credentials {
		c := &in.credentials[i]
		if c.password == "" {
			continue // the user's Secret is missing
		}
		if err := r.ensureSecret(ctx, c.live, c.object(pg, in.certificates.serving.roots)); err != nil {
			refused = cmp.Or(refused, err)
		}
	}
	if apply.Transient(refused) {
		return refused
	}
	err := r.Applier.Apply(ctx, pg, certificateSecrets(pg, in)...)
	refused = cmp.Or(refused, err)
	if _, conflict := errors.AsType[*apply.ConflictError](err); conflict || apply.Transient(err) {
		return refused // instances must not start with the Secret of another owner
	}
	if err := r.Applier.Apply(ctx, pg, desired(pg, in, count)...); err != nil {
		return cmp.Or(refused, err)
	}
	return cmp.Or(refused, rejectedPodTemplate(pg), r.Applier.Prune(ctx, pg, toPrune(pg, in)...))
}

// ensureSecret makes a Secret of credentials as it should be. It is not controlled where the deletion keeps it, which is
// why the applier can't do it.
func (r *Reconciler) ensureSecret(ctx context.Context, live, want *corev1.Secret) error {
	if live == nil {
		if err := r.Client.Create(ctx, want, client.FieldOwner(controllerName)); err != nil {
			return fmt.Errorf("create Secret %q: %w", want.Name, err)
		}
		return nil
	}
	changed := live.DeepCopy()
	changed.OwnerReferences, changed.Data = want.OwnerReferences, want.Data
	changed.Labels = mergeMaps(live.Labels, want.Labels)
	changed.Annotations = mergeMaps(live.Annotations, want.Annotations)
	if equality.Semantic.DeepEqual(live.ObjectMeta, changed.ObjectMeta) && equality.Semantic.DeepEqual(live.Data, changed.Data) {
		return nil
	}
	patch := client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, changed, patch, client.FieldOwner(controllerName)); err != nil {
		return fmt.Errorf("change Secret %q: %w", want.Name, err)
	}
	return nil
}

func mergeMaps(have, want map[string]string) map[string]string {
	if len(want) == 0 {
		return have
	}
	out := maps.Clone(have)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, want)
	return out
}

// isOwn reports whether a Secret is of pg, or of one that had its name before.
func isOwn(pg *databasev1alpha1.PostgreSQL, s *corev1.Secret) bool {
	for key, value := range selector(pg) {
		if s.Labels[key] != value {
			return false
		}
	}
	return true
}

func secretConflict(pg *databasev1alpha1.PostgreSQL, s *corev1.Secret) error {
	e := &apply.ConflictError{OwnerKind: ownerKind, GVK: corev1.SchemeGroupVersion.WithKind("Secret"), Namespace: pg.Namespace, Name: s.Name}
	if ref := metav1.GetControllerOfNoCopy(s); ref != nil {
		e.Controller = ref.Kind + " " + ref.Name
	}
	return e
}

// resize resizes the PVCs and then re-creates the StatefulSet. It returns why a PVC could not be resized.
func (r *Reconciler) resize(ctx context.Context, pg *databasev1alpha1.PostgreSQL, in *inputs) (refused, err error) {
	for _, claim := range in.growth.patch {
		changed := claim.DeepCopy()
		changed.Spec.Resources.Requests[corev1.ResourceStorage] = in.growth.size
		patch := client.MergeFromWithOptions(claim, client.MergeFromWithOptimisticLock{})
		err := r.Client.Patch(ctx, changed, patch, client.FieldOwner(controllerName))
		switch err := requeue.IfOutdated(ctx, err); {
		case apply.Rejected(err):
			refused = err
		case err != nil:
			return nil, fmt.Errorf("resize PVC %q: %w", claim.Name, err)
		}
	}
	if refused != nil || !in.growth.replaceSet {
		return refused, nil
	}
	return nil, r.deleteKeepingPods(ctx, pg, in.cluster.set)
}

// deleteKeepingPods deletes the StatefulSet and leaves its pods, which the next one of its name takes over.
func (r *Reconciler) deleteKeepingPods(ctx context.Context, pg *databasev1alpha1.PostgreSQL, set *k8sappsv1.StatefulSet) error {
	if set.DeletionTimestamp != nil {
		return nil
	}
	target := &k8sappsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: pg.Name, Namespace: pg.Namespace}}
	err := r.Client.Delete(ctx, target,
		client.Preconditions{UID: &set.UID, ResourceVersion: &set.ResourceVersion}, client.PropagationPolicy(metav1.DeletePropagationOrphan))
	if err := requeue.IfOutdated(ctx, err); err != nil {
		return fmt.Errorf("delete StatefulSet %q, to re-create it with other PVCs: %w", pg.Name, err)
	}
	return nil
}
