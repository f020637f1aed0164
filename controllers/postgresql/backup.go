package postgresql

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// +kubebuilder:rbac:groups=backup.fettle.dev,resources=backups,verbs=get;list;watch;create;patch;delete

// baseBackupTimeout bounds a base backup with its retries, in seconds: a day, so that a large database has the time. A store
// that stops answering fails the run long before.
const baseBackupTimeout = 24 * 60 * 60

// archivedStep is how far status.lastArchivedTime may be behind: each step is a write.
const archivedStep = 5 * time.Minute

// azureIdentity is the annotation of a ServiceAccount that Azure's workload identity knows, and azureIdentityUse the label of the pods that
// its webhook gives a token.
const (
	azureIdentity    = "azure.workload.identity/client-id"
	azureIdentityUse = "azure.workload.identity/use"
)

// identityAnnotations are the prefixes of the annotations by which clouds give a ServiceAccount access to a bucket.
var identityAnnotations = []string{"eks.amazonaws.com/", "iam.gke.io/", "azure.workload.identity/"}

// wantsBackup reports whether backups are asked for, with a destination or without.
func wantsBackup(pg *databasev1alpha1.PostgreSQL) bool {
	return pg.Spec.Backup != nil && pg.Spec.Backup.Enabled
}

func backsUp(pg *databasev1alpha1.PostgreSQL) bool {
	return wantsBackup(pg) && pg.Spec.Backup.Destination != nil
}

// storeSecrets are the Secrets that the agents read to archive WAL.
func storeSecrets(pg *databasev1alpha1.PostgreSQL) []string {
	if !backsUp(pg) {
		return nil
	}
	var names []string
	if ref := pg.Spec.Backup.Destination.CredentialsSecretRef; ref != nil {
		names = append(names, ref.Name)
	}
	if ref := pg.Spec.Backup.Destination.CASecretRef; ref != nil && !slices.Contains(names, ref.Name) {
		names = append(names, ref.Name)
	}
	return names
}

// resolveBackup decides whether the Backup is applied, and reads the annotations that give the agents access to the bucket.
func (r *Reconciler) resolveBackup(ctx context.Context, pg *databasev1alpha1.PostgreSQL, in *inputs) error {
	if !backsUp(pg) {
		return nil
	}
	backup := &backupv1alpha1.Backup{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(pg), backup)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get Backup %q: %w", pg.Name, err)
	}
	in.backup = err == nil || archives(pg, &in.cluster)
	name := pg.Spec.Backup.Destination.ServiceAccountName
	if name == "" {
		return nil
	}
	account := &corev1.ServiceAccount{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: pg.Namespace, Name: name}, account); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get ServiceAccount %q: %w", name, err)
	}
	in.identity = identityOf(account)
	return nil
}

func identityOf(account *corev1.ServiceAccount) map[string]string {
	identity := map[string]string{}
	for key, value := range account.Annotations {
		if slices.ContainsFunc(identityAnnotations, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
			identity[key] = value
		}
	}
	return identity
}

// archives reports whether the primary archives WAL. A base backup before that would lack the WAL that it needs.
func archives(pg *databasev1alpha1.PostgreSQL, c *cluster) bool {
	primary := c.primary()
	return pg.Status.Ready && primary != nil && primary.status != nil && primary.status.Archive != nil
}

// backupObject is the Backup of pg. A hibernated PostgreSQL has no server to back up.
func backupObject(pg *databasev1alpha1.PostgreSQL) runtime.ApplyConfiguration {
	spec := map[string]any{
		"postgresRef": pg.Name, "method": string(backupv1alpha1.MethodPhysical),
		"schedule": pg.Spec.Backup.Schedule, "retention": pg.Spec.Backup.Retention, "timeoutSeconds": int64(baseBackupTimeout),
		"destination": *apply.Convert[map[string]any](pg.Spec.Backup.Destination),
	}
	if pg.Spec.Backup.Verify != nil {
		spec["verify"] = *apply.Convert[map[string]any](pg.Spec.Backup.Verify)
	}
	if pg.Spec.Hibernated {
		spec["suspend"] = true
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(backupv1alpha1.GroupVersion.WithKind("Backup"))
	u.SetNamespace(pg.Namespace)
	u.SetName(pg.Name)
	u.SetLabels(labels(pg))
	return client.ApplyConfigurationFromUnstructured(u)
}

// archiving says whether WAL reaches the store, as the agent of the primary sees it.
func archiving(pg *databasev1alpha1.PostgreSQL, c *cluster) conditions.State {
	primary := c.primary()
	switch {
	case !backsUp(pg):
		return conditions.False(databasev1alpha1.ReasonDestinationMissing, "nothing is backed up: set spec.backup.destination to a bucket of an object store")
	case isHibernated(pg, c):
		return conditions.True(databasev1alpha1.ReasonHibernated, "all instances are stopped because spec.hibernated is true")
	case primary == nil || primary.status == nil:
		return conditions.Unknown(fettlev1.ReasonReconciling, "the agent of the primary does not answer the operator")
	case primary.status.Archive == nil && primary.status.Generation < pg.Generation:
		return conditions.Unknown(databasev1alpha1.ReasonArchivingStarting, primary.name+" has not read spec.backup yet")
	case primary.status.Archive == nil:
		return conditions.False(databasev1alpha1.ReasonArchivingFailed, fmt.Sprintf(
			"the agent of %s is older than the operator and cannot archive WAL: set the annotation %s=true to replace the pods",
			primary.name, databasev1alpha1.AnnotationUpgradeAgent))
	}
	state := primary.status.Archive
	switch state.Reason {
	case databasev1alpha1.ReasonArchiving:
		return conditions.True(state.Reason, "WAL reaches the object store")
	case databasev1alpha1.ReasonArchivingStarting:
		return conditions.Unknown(state.Reason, primary.name+" has stored no WAL yet")
	case databasev1alpha1.ReasonArchivingBehind:
		return conditions.False(state.Reason, fmt.Sprintf("WAL files of %s wait for the object store, which is too slow: %s",
			primary.name, backlog(pg, primary.status)))
	}
	return conditions.False(state.Reason, fmt.Sprintf("%s cannot store WAL since %s: %s; %s",
		primary.name, state.FailingSince.UTC().Format(time.RFC3339), state.Message, backlog(pg, primary.status)))
}

// backlog says how much WAL waits for the store, and how full the volume is that keeps it until then. The figures have steps: each new
// text is a write.
func backlog(pg *databasev1alpha1.PostgreSQL, s *agentapi.Status) string {
	const step = 5 // percent
	waiting := "few files wait"
	if least := 1 << bits.Len(uint(s.Archive.Waiting)) / 2; least > 1 {
		waiting = fmt.Sprintf("at least %d files wait", least)
	}
	if s.DiskTotal == 0 {
		return waiting
	}
	return fmt.Sprintf("%s, and its volume is %d%% full. PostgreSQL stops when it is full: raise spec.storage before, %s",
		waiting, used(s)/step*step, growthHint(pg))
}

// lastArchived is the time up to which all commits are in the store, in steps of archivedStep.
func lastArchived(was *metav1.Time, pg *databasev1alpha1.PostgreSQL, c *cluster) *metav1.Time {
	primary := c.primary()
	switch {
	case !backsUp(pg):
		return nil
	case primary == nil || primary.status == nil || primary.status.Archive == nil || primary.status.Archive.LastWritten.IsZero():
		return was
	case was != nil && primary.status.Archive.LastWritten.Sub(was.Time) < archivedStep:
		return was
	}
	return new(metav1.NewTime(primary.status.Archive.LastWritten))
}
