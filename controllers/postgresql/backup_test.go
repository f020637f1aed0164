package postgresql

import (
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// archivingCluster is a PostgreSQL with backups whose primary has an agent with a state of archiving.
func archivingCluster(generation int64, state *agentapi.Archive) (*databasev1alpha1.PostgreSQL, *cluster) {
	pg := &databasev1alpha1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "shop", Generation: 2}}
	pg.Spec.Backup = &databasev1alpha1.PostgreSQLBackup{Enabled: true, Destination: &backupv1alpha1.Destination{URI: "s3://backups"}}
	pg.Status.Ready = true
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db-0", Labels: map[string]string{databasev1alpha1.LabelRole: databasev1alpha1.LabelRolePrimary}}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return pg, &cluster{instances: []instance{{name: "db-0", pod: pod, status: &agentapi.Status{
		Ready: true, Role: agentapi.Primary, HoldsLease: true, Generation: generation, Archive: state,
	}}}}
}

func TestArchiving(t *testing.T) {
	for what, c := range map[string]struct {
		generation int64
		state      *agentapi.Archive
		status     metav1.ConditionStatus
		reason     string
		backup     bool
	}{
		"not read yet": {1, nil, metav1.ConditionUnknown, databasev1alpha1.ReasonArchivingStarting, false},
		"old agent":    {2, nil, metav1.ConditionFalse, databasev1alpha1.ReasonArchivingFailed, false},
		"starting":     {2, &agentapi.Archive{Reason: databasev1alpha1.ReasonArchivingStarting}, metav1.ConditionUnknown, databasev1alpha1.ReasonArchivingStarting, true},
		"archiving":    {2, &agentapi.Archive{Reason: databasev1alpha1.ReasonArchiving}, metav1.ConditionTrue, databasev1alpha1.ReasonArchiving, true},
		"behind":       {2, &agentapi.Archive{Reason: databasev1alpha1.ReasonArchivingBehind}, metav1.ConditionFalse, databasev1alpha1.ReasonArchivingBehind, true},
		"failing":      {2, &agentapi.Archive{Reason: databasev1alpha1.ReasonArchivingFailed}, metav1.ConditionFalse, databasev1alpha1.ReasonArchivingFailed, true},
	} {
		pg, cluster := archivingCluster(c.generation, c.state)
		if got := archiving(pg, cluster); got.Status != c.status || got.Reason != c.reason || got.Message == "" {
			t.Errorf("%s: %+v", what, got)
		}
		if got := archives(pg, cluster); got != c.backup {
			t.Errorf("%s: Backup wanted %v", what, got)
		}
	}
	pg, none := archivingCluster(2, nil)
	none.instances[0].status = nil
	if got := archiving(pg, none); got.Status != metav1.ConditionUnknown {
		t.Errorf("no answer: %+v", got)
	}
	pg.Spec.Backup.Destination = nil
	if got := archiving(pg, none); got.Status != metav1.ConditionFalse || got.Reason != databasev1alpha1.ReasonDestinationMissing || !wantsBackup(pg) || backsUp(pg) {
		t.Errorf("no destination: %+v", got)
	}
}

// TestArchiving_backlog: the message says how long the volume lasts, and is not rewritten for each file.
func TestArchiving_backlog(t *testing.T) {
	failing := func(waiting, free int) string {
		pg, c := archivingCluster(2, &agentapi.Archive{Reason: databasev1alpha1.ReasonArchivingFailed, Message: "the store does not answer", Waiting: waiting})
		c.instances[0].status.DiskTotal, c.instances[0].status.DiskFree = 1000, uint64(free)
		return archiving(pg, c).Message
	}
	const since = "db-0 cannot store WAL since 0001-01-01T00:00:00Z: the store does not answer; "
	const advice = " PostgreSQL stops when it is full: raise spec.storage before, or set spec.autoGrow"
	for _, c := range []struct {
		waiting, free int
		want          string
	}{
		{1, 1000, "few files wait, and its volume is 0% full."},
		{2, 851, "at least 2 files wait, and its volume is 10% full."},
		{100, 400, "at least 64 files wait, and its volume is 60% full."},
		{127, 351, "at least 64 files wait, and its volume is 60% full."},
		{128, 10, "at least 128 files wait, and its volume is 95% full."},
	} {
		if got := failing(c.waiting, c.free); got != since+c.want+advice {
			t.Errorf("%d files, %d of 1000 free: %s", c.waiting, c.free, got)
		}
	}
	pg, c := archivingCluster(2, &agentapi.Archive{Reason: databasev1alpha1.ReasonArchivingBehind, Waiting: 40})
	if got := archiving(pg, c).Message; got != "WAL files of db-0 wait for the object store, which is too slow: at least 32 files wait" {
		t.Error(got)
	}
}

func TestLastArchived(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	pg, c := archivingCluster(2, &agentapi.Archive{LastWritten: at})
	first := lastArchived(nil, pg, c)
	if first == nil || !first.Time.Equal(at) {
		t.Fatalf("first: %v", first)
	}
	for _, step := range []struct {
		written time.Time
		want    time.Time
	}{{at.Add(archivedStep - 1), at}, {at.Add(archivedStep), at.Add(archivedStep)}, {time.Time{}, at}, {at.Add(-time.Hour), at}} {
		c.instances[0].status.Archive.LastWritten = step.written
		if got := lastArchived(first, pg, c); !got.Time.Equal(step.want) {
			t.Errorf("written at %v: %v", step.written, got)
		}
	}
	pg.Spec.Backup.Enabled = false
	if got := lastArchived(first, pg, c); got != nil {
		t.Errorf("disabled: %v", got)
	}
}

func TestStoreSecrets(t *testing.T) {
	pg, _ := archivingCluster(2, nil)
	d := pg.Spec.Backup.Destination
	d.CredentialsSecretRef, d.CASecretRef = &fettlev1.LocalReference{Name: "store"}, &fettlev1.SecretKeyReference{Name: "store"}
	if got := storeSecrets(pg); !slices.Equal(got, []string{"store"}) {
		t.Errorf("one Secret: %v", got)
	}
	d.CASecretRef.Name = "ca"
	if got := storeSecrets(pg); !slices.Equal(got, []string{"store", "ca"}) {
		t.Errorf("two Secrets: %v", got)
	}
	pg.Spec.Backup.Enabled = false
	if got := storeSecrets(pg); got != nil {
		t.Errorf("disabled: %v", got)
	}
}

func TestIdentityOf_copiesOnlyIdentity(t *testing.T) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		"eks.amazonaws.com/role-arn": "arn", corev1.LastAppliedConfigAnnotation: "{}", "fettle.dev/hash": "1",
	}}}
	if got := identityOf(account); !maps.Equal(got, map[string]string{"eks.amazonaws.com/role-arn": "arn"}) {
		t.Errorf("copied %v", got)
	}
}

// TestStatefulSet_azureIdentity: pods get the label of Azure's workload identity only with its annotation, and no pod is replaced for it.
func TestStatefulSet_azureIdentity(t *testing.T) {
	pg := &databasev1alpha1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "shop"}}
	pg.Spec.TerminationGracePeriodSeconds = new(int64(60))
	revisions := map[string]bool{}
	for client, want := range map[string]string{"": "", "00000000-1111": "true"} {
		in := inputs{identity: map[string]string{"eks.amazonaws.com/role-arn": "arn"}}
		if client != "" {
			in.identity[azureIdentity] = client
		}
		template := statefulSet(pg, in, 1).Spec.Template
		if got := template.Labels[azureIdentityUse]; got != want {
			t.Errorf("client %q: label %q", client, got)
		}
		revisions[template.Annotations[annotationRevision]] = true
	}
	if len(revisions) != 1 {
		t.Error("pods are replaced for the label")
	}
}
