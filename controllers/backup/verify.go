package backup

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/backup/backupjob"
	"github.com/fettle-dev/fettle/internal/backup/schedule"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/reconciler"
	"github.com/fettle-dev/fettle/internal/requeue"
)

// keepVerifications is how many Restores of ended verifications are kept.
const keepVerifications = 3

// verificationPrefix is that of the names of Restores that verify.
const verificationPrefix = "verify-"

// verificationName is the name of the Restore for a slot: the same whenever it is asked for. The name of a Restore has at most 49
// characters, so that of a long Backup is shortened.
func verificationName(backup string, slot time.Time) string {
	const longest, kept = 29, 20
	if len(backup) > longest {
		h := fnv.New32a()
		_, _ = h.Write([]byte(backup)) // never fails
		backup = fmt.Sprintf("%s-%08x", strings.TrimRight(backup[:kept], "-"), h.Sum32())
	}
	return verificationPrefix + schedule.RunName(backup, slot)
}

// verificationSlot is the slot in the name of a Restore; zero if it has none.
func verificationSlot(restore *backupv1alpha1.Restore) time.Time {
	at := strings.LastIndex(restore.Name, "-")
	slot, err := time.Parse(schedule.SlotFormat, restore.Name[at+1:])
	if err != nil {
		return time.Time{}
	}
	return slot
}

// parseVerification returns the schedule of the verifications, nil if there is none, or what is wrong with it.
func parseVerification(b *backupv1alpha1.Backup) (times *schedule.Schedule, invalid string) {
	if b.Spec.Verify == nil {
		return nil, ""
	}
	if _, err := schedule.Parse(b.Spec.Verify.Schedule, ""); err != nil {
		return nil, "spec.verify." + err.Error()
	}
	times, err := schedule.Parse(b.Spec.Verify.Schedule, b.Spec.TimeZone)
	if err != nil {
		return nil, "spec." + err.Error()
	}
	return times, ""
}

// verificationDue returns the slot to verify for now, zero if there is none, and the time of the next one, zero if there is none. While a
// verification is under way or no backup exists, none is due.
func verificationDue(b *backupv1alpha1.Backup, times *schedule.Schedule, restores []*backupv1alpha1.Restore, now time.Time) (slot, next time.Time) {
	if times == nil || b.Spec.Suspend {
		return time.Time{}, time.Time{}
	}
	timing := schedule.Timing{
		Jitter: schedule.Jitter(string(b.UID), b.Spec.JitterSeconds), Deadline: time.Duration(b.Spec.StartingDeadlineSeconds) * time.Second,
		After: b.CreationTimestamp.Time,
	}
	if at := b.Status.LastVerifiedTime; at != nil && at.After(timing.After) {
		timing.After = at.Time
	}
	busy := false
	for _, restore := range restores {
		if at := verificationSlot(restore); at.After(timing.After) {
			timing.After = at
		}
		busy = busy || !backupjob.HasEnded(restore.Status.Phase)
	}
	slot, next = times.Due(timing, now)
	if busy || b.Status.LastSuccessfulRun == "" {
		slot = time.Time{}
	}
	return slot, next
}

// verificationOf is the Restore for a slot.
func verificationOf(b *backupv1alpha1.Backup, slot time.Time) *backupv1alpha1.Restore {
	labels := reconciler.Labels("Backup", b.Name, "backup")
	labels[backupv1alpha1.LabelBackup] = b.Name
	return &backupv1alpha1.Restore{
		ObjectMeta: metav1.ObjectMeta{Name: verificationName(b.Name, slot), Namespace: b.Namespace, Labels: labels},
		Spec: backupv1alpha1.RestoreSpec{
			From: backupv1alpha1.RestoreSource{Run: b.Status.LastSuccessfulRun}, To: backupv1alpha1.RestoreTarget{Temporary: b.Spec.Verify.TemporaryServer.DeepCopy()},
			IdentitySecretRef: b.Spec.Verify.IdentitySecretRef.DeepCopy(), Pod: *b.Spec.Pod.DeepCopy(),
		},
	}
}

// recordVerifications takes the last verification that succeeded into the status.
func recordVerifications(b *backupv1alpha1.Backup, restores []*backupv1alpha1.Restore) {
	st := &b.Status
	for _, restore := range restores {
		at := restore.Status.CompletionTime
		if restore.Status.Phase == backupv1alpha1.RunSucceeded && at != nil && (st.LastVerifiedTime == nil || at.After(st.LastVerifiedTime.Time)) {
			st.LastVerifiedTime, st.LastVerifiedRun = at.DeepCopy(), restore.Spec.From.Run
		}
	}
}

// endedVerifications are the Restores that have ended, the first to end first.
func endedVerifications(restores []*backupv1alpha1.Restore) []*backupv1alpha1.Restore {
	out := slices.DeleteFunc(slices.Clone(restores), func(r *backupv1alpha1.Restore) bool {
		return !backupjob.HasEnded(r.Status.Phase) || r.Status.CompletionTime == nil
	})
	slices.SortFunc(out, func(a, b *backupv1alpha1.Restore) int {
		return cmp.Or(a.Status.CompletionTime.Compare(b.Status.CompletionTime.Time), strings.Compare(a.Name, b.Name))
	})
	return out
}

// setVerified reports how the last verification ended. What became of a Restore that was deleted since stays as it was reported.
func setVerified(b *backupv1alpha1.Backup, restores []*backupv1alpha1.Restore) {
	if b.Spec.Verify == nil {
		meta.RemoveStatusCondition(&b.Status.Conditions, backupv1alpha1.BackupVerified)
		return
	}
	state := conditions.Unknown(backupv1alpha1.ReasonNotVerified, "no verification has ended yet")
	if was := meta.FindStatusCondition(b.Status.Conditions, backupv1alpha1.BackupVerified); was != nil {
		state = conditions.State{Status: was.Status, Reason: was.Reason, Message: was.Message}
	}
	if ended := endedVerifications(restores); len(ended) > 0 {
		state = verdictOf(ended[len(ended)-1])
	}
	conditions.SetState(b, backupv1alpha1.BackupVerified, true, state)
}

// verdictOf is what a verification has shown.
func verdictOf(restore *backupv1alpha1.Restore) conditions.State {
	if restore.Status.Phase == backupv1alpha1.RunSucceeded {
		message := fmt.Sprintf("BackupRun %q was restored", restore.Spec.From.Run)
		if result := restore.Status.Result; result != nil {
			message += fmt.Sprintf(": %d tables, %d rows", result.Tables, result.Rows)
		}
		return conditions.True(backupv1alpha1.ReasonVerified, message)
	}
	failure := meta.FindStatusCondition(restore.Status.Conditions, fettlev1.Ready)
	if failure == nil {
		return conditions.False(backupv1alpha1.ReasonVerificationFailed, fmt.Sprintf("Restore %q failed", restore.Name))
	}
	return conditions.False(failure.Reason, fmt.Sprintf("the backup of BackupRun %q could not be verified by Restore %q: %s", restore.Spec.From.Run, restore.Name, failure.Message))
}

// verifications returns the Restores that the schedule made.
func (r *Reconciler) verifications(ctx context.Context, b *backupv1alpha1.Backup) ([]*backupv1alpha1.Restore, error) {
	list := &backupv1alpha1.RestoreList{}
	if err := r.Client.List(ctx, list, client.InNamespace(b.Namespace), client.MatchingLabels{backupv1alpha1.LabelBackup: b.Name}); err != nil {
		return nil, fmt.Errorf("list Restores: %w", err)
	}
	var out []*backupv1alpha1.Restore
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], b) {
			out = append(out, &list.Items[i])
		}
	}
	return out, nil
}

// verify starts the verification that is due, and returns when to look again.
func (r *Reconciler) verify(ctx context.Context, b *backupv1alpha1.Backup, restores []*backupv1alpha1.Restore, accepted bool, now time.Time) (time.Duration, error) {
	times, _ := parseVerification(b) // the condition Accepted says what is wrong
	slot, next := verificationDue(b, times, restores, now)
	wait := time.Duration(0)
	if !next.IsZero() {
		wait = min(max(next.Sub(now), time.Second), longestWait)
	}
	if slot.IsZero() || !accepted {
		return wait, nil // the end of a run or verification, or what is missing, triggers the next reconcile
	}
	restore := verificationOf(b, slot)
	if err := r.Applier.Create(ctx, b, restore); err != nil {
		return wait, err
	}
	log.FromContext(ctx).Info("started verification", "restore", restore.Name, "run", restore.Spec.From.Run)
	return wait, nil
}

// pruneVerifications deletes Restores of verifications that ended long ago.
func (r *Reconciler) pruneVerifications(ctx context.Context, restores []*backupv1alpha1.Restore) error {
	ended := endedVerifications(restores)
	for _, restore := range ended[:max(0, len(ended)-keepVerifications)] {
		if restore.DeletionTimestamp != nil {
			continue
		}
		err := r.Client.Delete(ctx, restore, client.Preconditions{UID: &restore.UID, ResourceVersion: &restore.ResourceVersion},
			client.PropagationPolicy(metav1.DeletePropagationBackground))
		if err := requeue.IfOutdated(ctx, err); err != nil {
			return fmt.Errorf("delete Restore %q: %w", restore.Name, err)
		}
	}
	return nil
}
