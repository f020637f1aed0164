package postgresql

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/requeue"
)

// execute makes volumes larger before anything else, releases the Lease of a primary that is known to be dead, takes the step,
// and tells the primary of databases and roles.
func (r *Reconciler) execute(ctx context.Context, pg *databasev1alpha1.PostgreSQL, in *inputs, seen *observed) (err error) {
	if seen.growErr, err = r.resize(ctx, pg, in); err != nil {
		return err
	}
	if err := r.replaceForVolumes(ctx, pg, &in.cluster); err != nil {
		return err
	}
	if err := r.reconcileLease(ctx, pg, &in.cluster); err != nil {
		return err
	}
	if err := r.executeStep(ctx, pg, in, seen.step); err != nil {
		return err
	}
	return r.applyDatabaseObjects(ctx, pg, in, seen)
}

// executeStep takes one step, unless it was taken a short while ago: an accepted loss is forgotten each time. One whose object is not as it was judged is
// evaluated again.
func (r *Reconciler) executeStep(ctx context.Context, pg *databasev1alpha1.PostgreSQL, in *inputs, s Step) error {
	again := stepRetry
	if s.Code == RestartServer {
		again = restartRetry
	}
	key, what := client.ObjectKeyFromObject(pg), string(s.Code)+s.targetID()
	if s.Code == NoStep || !r.history.due(key, what, again) && s.Code != ClearAcceptDataLoss {
		return nil
	}
	log.FromContext(ctx).Info("executing step", "step", s.Code, "reason", s.message)
	err := r.runStep(ctx, pg, in, s)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		r.history.undo(key, what)
		requeue.Request(ctx)
		return nil
	}
	return err
}

func (r *Reconciler) runStep(ctx context.Context, pg *databasev1alpha1.PostgreSQL, in *inputs, s Step) error {
	switch s.Code {
	case ReplacePod:
		return r.replacePod(ctx, s.target.pod)
	case RestartServer:
		if err := in.certificates.restart(ctx, pg, s.target.pod); err != nil {
			return fmt.Errorf("restart %s: %w", s.target.name, err)
		}
		r.agents.forget(client.ObjectKeyFromObject(pg))
		return nil
	case RequestSwitchover:
		return r.annotate(ctx, pg, databasev1alpha1.AnnotationSwitchover, s.target.name)
	case ClearSwitchover:
		if name := pg.Annotations[databasev1alpha1.AnnotationSwitchover]; name != "any" && in.cluster.named(name) == nil {
			r.Events.Eventf(pg, nil, corev1.EventTypeWarning, databasev1alpha1.ReasonSwitchover, "Reconcile",
				"the annotation %s names %q, which is no instance: it is removed", databasev1alpha1.AnnotationSwitchover, conditions.Clip(name, maxInstanceMessage))
		}
		return r.annotate(ctx, pg, databasev1alpha1.AnnotationSwitchover, "")
	case ClearAcceptDataLoss:
		err := r.annotate(ctx, pg, databasev1alpha1.AnnotationAcceptDataLoss, "")
		if err == nil {
			r.Events.Eventf(pg, nil, corev1.EventTypeNormal, "DataLossAccepted", "Reconcile", "the annotation %s is removed: %s",
				databasev1alpha1.AnnotationAcceptDataLoss, s.message)
		}
		return err
	case ClearReclone:
		return r.annotate(ctx, pg, databasev1alpha1.AnnotationReclone, "")
	}
	return nil
}

func (s Step) targetID() string {
	if s.target == nil {
		return ""
	}
	if s.target.pod == nil {
		return s.target.name
	}
	return s.target.name + string(s.target.pod.UID)
}

// replacePod deletes exactly the pod that was judged: one that has become primary since has another version.
func (r *Reconciler) replacePod(ctx context.Context, pod *corev1.Pod) error {
	err := r.Client.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}},
		client.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion})
	if err != nil {
		return fmt.Errorf("replace pod %q: %w", pod.Name, err)
	}
	return nil
}

// annotate asks the agents for something, such as another primary; an empty value ends it.
func (r *Reconciler) annotate(ctx context.Context, pg *databasev1alpha1.PostgreSQL, key, value string) error {
	if pg.Annotations[key] == value {
		return nil
	}
	before := &metav1.PartialObjectMetadata{ObjectMeta: *pg.ObjectMeta.DeepCopy()}
	before.SetGroupVersionKind(databasev1alpha1.GroupVersion.WithKind(ownerKind))
	after := before.DeepCopy()
	if value == "" {
		delete(after.Annotations, key)
	} else {
		after.Annotations = mergeMaps(after.Annotations, map[string]string{key: value})
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := r.Client.Patch(ctx, after, patch, client.FieldOwner(controllerName))
	if err != nil {
		return fmt.Errorf("annotate PostgreSQL %q: %w", pg.Name, err)
	}
	return nil
}
