package controllers_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

var _ = Describe("Other volumes of a PostgreSQL", func() {
	It("moves all instances to volumes that a person created, and back", func(ctx context.Context) {
		namespace, _ := newDatabases(ctx)
		pg := newPostgreSQL(namespace, "moved", instances(2))
		createDatabase(ctx, pg)
		lease := &coordinationv1.Lease{ObjectMeta: setOf(pg).ObjectMeta}
		Expect(read(ctx, lease)).To(Succeed())
		Expect(lease.Annotations).NotTo(HaveKey("fettle.dev/volumes"))

		By("asking for volumes that do not exist")
		patch(ctx, pg, `{"metadata":{"annotations":{"fettle.dev/volumes":"2"}}}`)
		Eventually(pgSays(pg, databasev1alpha1.PostgreSQLVolumesReady)).WithContext(ctx).Should(
			And(HavePrefix("False VolumesUnknown: "), ContainSubstring("create the PVC data-2-moved-0")))
		Expect(pgReady(ctx, pg)).To(HavePrefix("True "), "the instances go on with what they have")

		By("creating the first of them")
		Expect(user.Create(ctx, newClaim(namespace, "data-2-moved-0"))).To(Succeed())
		touchDatabase(ctx, pg)
		Eventually(usesVolumes).WithContext(ctx).WithArguments(pg).Should(Equal("2 data-2-moved-0 data-2-moved-1 True"))
		Expect(read(ctx, lease)).To(Succeed())
		Expect(lease.Annotations).To(HaveKeyWithValue("fettle.dev/volumes", "2"))
		Expect(lease.Annotations).NotTo(HaveKey("fettle.dev/fresh"), "an empty database could be made beside the volume")
		Expect(pgSays(pg, databasev1alpha1.PostgreSQLVolumesReady)(ctx)).To(ContainSubstring("are kept, and can be deleted: data-moved-0 data-moved-1"))

		By("going back")
		patch(ctx, pg, `{"metadata":{"annotations":{"fettle.dev/volumes":"1"}}}`)
		Eventually(usesVolumes).WithContext(ctx).WithArguments(pg).Should(Equal("1 data-moved-0 data-moved-1 True"))
		Expect(read(ctx, newClaim(namespace, "data-2-moved-1"))).To(Succeed())
	})

	It("does not choose among the volumes of a deleted PostgreSQL", func(ctx context.Context) {
		namespace, _ := newDatabases(ctx)
		pg := newPostgreSQL(namespace, "several")
		for _, name := range []string{"data-several-0", "data-3-several-0"} {
			Expect(user.Create(ctx, newClaim(namespace, name))).To(Succeed())
		}
		Expect(user.Create(ctx, pg)).To(Succeed())
		Eventually(pgSays(pg, databasev1alpha1.PostgreSQLApplied)).WithContext(ctx).Should(
			And(HavePrefix("False "), ContainSubstring("set the annotation fettle.dev/volumes to the number of those to use")))
		patch(ctx, pg, `{"metadata":{"annotations":{"fettle.dev/volumes":"3"}}}`)
		Eventually(usesVolumes).WithContext(ctx).WithArguments(pg).Should(Equal("3 data-3-several-0 True"))
	})
})

var _ = Describe("A restore of a PostgreSQL in place", func() {
	It("keeps the previous volumes, and returns to them after a failure or a deletion", func(ctx context.Context) {
		namespace, fake := newDatabases(ctx)
		pg := newPostgreSQL(namespace, "shop")
		createDatabase(ctx, pg)
		Expect(user.Create(ctx, &backupv1alpha1.Backup{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "base"},
			Spec: backupv1alpha1.BackupSpec{
				PostgresRef: "shop", Method: backupv1alpha1.MethodPhysical,
				Destination: backupv1alpha1.Destination{URI: "s3://backups/shop", CredentialsSecretRef: &fettlev1.LocalReference{Name: "store"}},
			},
		})).To(Succeed())
		lease := &coordinationv1.Lease{ObjectMeta: setOf(pg).ObjectMeta}

		By("failing")
		fake.Update(func(d *databases) {
			d.ChangeStatus["shop-0"] = func(s *agentapi.Status) {
				if s.Volumes > 1 {
					s.Ready, s.Reason, s.Message = false, databasev1alpha1.ReasonTargetTooEarly, "choose a later target"
				}
			}
		})
		restore := newInPlace(namespace, "too-early")
		Expect(user.Create(ctx, restore)).To(Succeed())
		Eventually(restoreSays(restore)).WithContext(ctx).Should(And(
			HavePrefix("Failed TargetTooEarly: "), ContainSubstring("choose a later target"), ContainSubstring("data-2-shop-0 of this attempt are kept")))
		Eventually(usesVolumes).WithContext(ctx).WithArguments(pg).Should(Equal("1 data-shop-0 True"))
		Expect(pg.Annotations).NotTo(HaveKey("fettle.dev/recovery"))

		By("being deleted while it runs")
		end := metav1.NewTime(time.Now().Add(time.Hour).Truncate(time.Second))
		fake.Update(func(d *databases) {
			d.ChangeStatus["shop-0"] = func(s *agentapi.Status) {
				if s.Volumes > 1 {
					s.Ready, s.Phase, s.Reason, s.Message = false, agentapi.Initializing, databasev1alpha1.ReasonCopying, "restoring"
					s.Progress = &backupv1alpha1.Progress{Bytes: 250, TotalBytes: 1000, Percent: new(int32(25)), EstimatedEndTime: &end}
				}
			}
		})
		restore = newInPlace(namespace, "deleted")
		Expect(user.Create(ctx, restore)).To(Succeed())
		Eventually(restoreSays(restore)).WithContext(ctx).Should(And(HavePrefix("Running Running: "), ContainSubstring("restoring")))
		Expect(read(ctx, lease)).To(Succeed())
		Expect(lease.Annotations).To(HaveKeyWithValue("fettle.dev/recovery", `{"backup":"base","targetTime":"2026-03-01T12:00:00Z"}`))
		Expect(lease.Annotations).NotTo(HaveKey("fettle.dev/fresh"), "an agent that cannot recover would make an empty database")
		role := &rbacv1.Role{ObjectMeta: setOf(pg).ObjectMeta}
		Expect(read(ctx, role)).To(Succeed())
		Expect(fmt.Sprint(role.Rules)).To(And(ContainSubstring("[base]"), ContainSubstring("[store]")))
		Eventually(copied(restore)).WithContext(ctx).Should(Equal("250 of 1000 (25 %), until " + end.UTC().Format(time.RFC3339)))
		Expect(user.Delete(ctx, restore)).To(Succeed())
		Eventually(usesVolumes).WithContext(ctx).WithArguments(pg).Should(Equal("1 data-shop-0 True"))
		Eventually(field(pg, func(pg *databasev1alpha1.PostgreSQL) *backupv1alpha1.Progress { return pg.Status.Progress })).WithContext(ctx).Should(BeNil())

		By("succeeding")
		restore = newInPlace(namespace, "good")
		Expect(user.Create(ctx, restore)).To(Succeed())
		Eventually(copied(restore)).WithContext(ctx).Should(HavePrefix("250 of 1000 (25 %)"))
		fake.Update(func(d *databases) { delete(d.ChangeStatus, "shop-0") })
		Eventually(restoreSays(restore)).WithContext(ctx).Should(And(
			HavePrefix("Succeeded Succeeded: "), ContainSubstring("The previous PVCs data-shop-0 are kept"), ContainSubstring("fettle.dev/volumes=1")))
		Expect(copied(restore)(ctx)).To(Equal("1000 of 1000 (100 %)"))
		Eventually(usesVolumes).WithContext(ctx).WithArguments(pg).Should(Equal("4 data-4-shop-0 True"))
		Eventually(field(pg, func(pg *databasev1alpha1.PostgreSQL) map[string]string { return pg.Annotations })).WithContext(ctx).
			ShouldNot(Or(HaveKey("fettle.dev/recovery"), HaveKey("fettle.dev/former-volumes")))
		Expect(read(ctx, newClaim(namespace, "data-shop-0"))).To(Succeed())
		Eventually(func(ctx context.Context) (string, error) {
			err := read(ctx, role)
			return fmt.Sprint(role.Rules), err
		}).WithContext(ctx).ShouldNot(ContainSubstring("[store]"))
	})
})

func newClaim(namespace, name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

// newInPlace restores the PostgreSQL "shop" from the Backup "base".
func newInPlace(namespace, name string) *backupv1alpha1.Restore {
	return &backupv1alpha1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: backupv1alpha1.RestoreSpec{
			From: backupv1alpha1.RestoreSource{Backup: "base"}, To: backupv1alpha1.RestoreTarget{PostgresRef: "shop"}, Overwrite: "shop",
			RecoveryTarget: backupv1alpha1.RecoveryTarget{TargetTime: "2026-03-01T12:00:00Z"},
		},
	}
}

// restoreSays returns the phase, and the reason and message of Ready.
func restoreSays(restore *backupv1alpha1.Restore) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		if err := read(ctx, restore); err != nil {
			return "", err
		}
		ready := meta.FindStatusCondition(restore.Status.Conditions, fettlev1.Ready)
		if ready == nil {
			return "", nil
		}
		return fmt.Sprintf("%s %s: %s", restore.Status.Phase, ready.Reason, ready.Message), nil
	}
}

// copied returns the progress of a Restore.
func copied(restore *backupv1alpha1.Restore) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		err := read(ctx, restore)
		p := restore.Status.Progress
		if err != nil || p == nil {
			return "", err
		}
		out := fmt.Sprintf("%d of %d (%d %%)", p.Bytes, p.TotalBytes, *p.Percent)
		if end := p.EstimatedEndTime; end != nil {
			out += ", until " + end.UTC().Format(time.RFC3339)
		}
		return out, nil
	}
}

// usesVolumes returns the number of the volumes in status, the PVCs of the pods, and the status of Ready.
func usesVolumes(ctx context.Context, pg *databasev1alpha1.PostgreSQL) (string, error) {
	if err := read(ctx, pg); err != nil {
		return "", err
	}
	pods := &corev1.PodList{}
	if err := user.List(ctx, pods, client.InNamespace(pg.Namespace), client.MatchingLabels{"fettle.dev/owner-name": pg.Name}); err != nil {
		return "", err
	}
	out := fmt.Sprint(pg.Status.Volumes)
	for i := range pods.Items {
		out += " " + pods.Items[i].Spec.Volumes[0].PersistentVolumeClaim.ClaimName
	}
	return out + " " + string(meta.FindStatusCondition(pg.Status.Conditions, fettlev1.Ready).Status), nil
}

// touchDatabase triggers one more reconcile of pg.
func touchDatabase(ctx context.Context, pg *databasev1alpha1.PostgreSQL) {
	GinkgoHelper()
	patch(ctx, pg, `{"metadata":{"annotations":{"fettle.dev/reconcile-at":"now"}}}`)
}
