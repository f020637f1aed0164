package backupjob

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/reconciler"
)

// Progress are the reasons of Ready that report work under way.
var Progress = []string{backupv1alpha1.ReasonRunning, backupv1alpha1.ReasonWaiting}

// IndexBackup finds the BackupRuns of a Backup. The controller of BackupRuns adds it to the cache.
const IndexBackup = "spec.backup"

// BlockedError is why a run cannot start.
type BlockedError struct {
	Reason, Message string
	// Final says that waiting does not help.
	Final bool
	// Within is how old the run may become until it fails, since it keeps others waiting; 0 for any age.
	Within time.Duration
	// Poll is when to look again, if no event tells; 0 if one does.
	Poll time.Duration
}

// Error implements error.
func (b *BlockedError) Error() string { return b.Message }

// Waiting returns that a run waits for something that an event tells of.
func Waiting(reason, format string, args ...any) *BlockedError {
	return &BlockedError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Jobs runs the Jobs of the objects of one kind.
type Jobs struct {
	reconciler.Tools
	Kind Kind
}

// Watch adds the triggers of the children.
func (j *Jobs) Watch(b *builder.Builder) {
	b.Owns(&batchv1.Job{}).
		Owns(&corev1.ServiceAccount{}).
		Owns(&rbacv1.Role{}).
		Owns(&rbacv1.RoleBinding{}).
		Watches(&corev1.Pod{}, j.EnqueueOwner())
}

// Reconcile starts the Job of a run, watches it and reports what became of it. prepare says what to run, with a [BlockedError] error if it
// cannot start yet. It is called until the Job exists, and never after.
func (j *Jobs) Reconcile(ctx context.Context, run Run, prepare func(context.Context) (*Pod, error)) (reconcile.Result, error) {
	if HasEnded(*run.Phase) {
		return reconcile.Result{}, nil
	}
	if (*run.StartTime).IsZero() {
		return j.start(ctx, run, prepare)
	}
	return reconcile.Result{}, j.observe(ctx, run)
}

func (j *Jobs) start(ctx context.Context, run Run, prepare func(context.Context) (*Pod, error)) (reconcile.Result, error) {
	pod, err := prepare(ctx)
	if err == nil {
		err = j.create(ctx, run, pod)
	}
	blocked, isBlocked := errors.AsType[*BlockedError](err)
	switch {
	case isBlocked:
		return j.block(run, blocked), nil
	case err == nil, apply.Transient(err), pod == nil:
		return reconcile.Result{}, err
	}
	j.block(run, &BlockedError{Reason: apply.Reason(err), Message: err.Error(), Within: time.Duration(pod.TimeoutSeconds) * time.Second})
	if HasEnded(*run.Phase) {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, err
}

// block reports why the run cannot start.
func (j *Jobs) block(run Run, b *BlockedError) reconcile.Result {
	v, poll, final := verdict{backupv1alpha1.RunPending, b.Reason, b.Message}, b.Poll, b.Final
	if b.Within > 0 {
		left := b.Within - j.Clock.Since(run.GetCreationTimestamp().Time)
		final, poll = final || left <= 0, reconciler.Sooner(poll, max(left, time.Second))
	}
	if final {
		v.phase, poll = backupv1alpha1.RunFailed, 0
	}
	run.set(v, j.Clock.Now())
	return reconcile.Result{RequeueAfter: poll}
}

// create creates the children, the Job last. The Job is never changed: a new version of the operator, which would make another one,
// leaves it alone.
func (j *Jobs) create(ctx context.Context, run Run, pod *Pod) error {
	if err := j.Applier.Apply(ctx, run.Object, pod.Access()...); err != nil {
		return err
	}
	wanted := pod.Job()
	if err := j.Applier.Create(ctx, run.Object, wanted); err != nil {
		return err
	}
	live := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: wanted.Namespace, Name: wanted.Name}}
	if wanted.UID != "" { // the cache may not show it yet
		live = wanted
	} else if found, current, err := j.Applier.Get(ctx, live); err != nil || !found || !current {
		return err // or the watch triggers the next reconcile
	}
	*run.StartTime = &metav1.Time{Time: live.CreationTimestamp.Time}
	run.set(judge(live, run.Result, nil), j.Clock.Now())
	return nil
}

// observe reports what became of the Job of a run that has started.
func (j *Jobs) observe(ctx context.Context, run Run) error {
	live := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: run.GetNamespace(), Name: j.Kind.Prefix + run.GetName()}}
	found, current, err := j.Applier.Get(ctx, live)
	if err != nil || !current {
		return err // or the watch triggers the next reconcile
	}
	if !found || !metav1.IsControlledBy(live, run.Object) {
		return j.checkGone(ctx, run, live)
	}
	pods := &corev1.PodList{}
	labels := client.MatchingLabels(reconciler.Selector(j.Kind.Name, run.GetName()))
	if err := j.Client.List(ctx, pods, client.InNamespace(run.GetNamespace()), labels); err != nil {
		return fmt.Errorf("list pods of Job %q: %w", live.Name, err)
	}
	run.set(judge(live, run.Result, pods.Items), j.Clock.Now())
	return nil
}

// checkGone reports that the Job was deleted while it ran, after asking the API server: the cache of an operator that has just become
// the leader may not show the Job yet. It is not created again: the run would start over without anyone asking for it.
func (j *Jobs) checkGone(ctx context.Context, run Run, missing *batchv1.Job) error {
	live := &batchv1.Job{}
	err := j.Live.Get(ctx, client.ObjectKeyFromObject(missing), live)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("get Job %q: %w", missing.Name, err)
	case err == nil && metav1.IsControlledBy(live, run.Object):
		return nil // the watch brings it
	}
	run.set(verdict{
		backupv1alpha1.RunFailed, backupv1alpha1.ReasonPodLost, fmt.Sprintf("Job %s was deleted while it ran: start another run", missing.Name),
	}, j.Clock.Now())
	return nil
}

// StatusDelay is that of both kinds: only a report that a run waits may be late. That it has started is never forgotten.
func (j *Jobs) StatusDelay(run conditions.Object) time.Duration {
	return j.Throttle.Delay(run, conditions.ReadyOf(run).Reason == backupv1alpha1.ReasonWaiting, false)
}

// MissingSecret returns the first of the named Secrets that does not exist; "" if all do. It reads metadata only.
func MissingSecret(ctx context.Context, t *reconciler.Tools, namespace string, names []string) (string, error) {
	reader := client.Reader(t.Client)
	if !t.WatchSecrets {
		reader = t.Live
	}
	for _, name := range names {
		secret := &metav1.PartialObjectMetadata{}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)
		if apierrors.IsNotFound(err) {
			return name, nil
		}
		if err != nil {
			return "", fmt.Errorf("get Secret %q: %w", name, err)
		}
	}
	return "", nil
}
