package controllers_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	k8sappsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

var _ = Describe("The volumes of a PostgreSQL", func() {
	It("grows the volumes of running instances", func(ctx context.Context) {
		namespace, fake := newDatabases(ctx)
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Provisioner: "example.com/fake", AllowVolumeExpansion: new(true)}
		Expect(user.Create(ctx, class)).To(Succeed())
		pg := newPostgreSQL(namespace, "growing", instances(2), func(s *databasev1alpha1.PostgreSQLSpec) { s.StorageClassName = &class.Name })
		createDatabase(ctx, pg)
		changeDatabase(ctx, pg, func(pg *databasev1alpha1.PostgreSQL) { pg.Spec.Storage = resource.MustParse("3Gi") })
		size := func(set *k8sappsv1.StatefulSet) string {
			return set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String()
		}
		Eventually(field(setOf(pg), size), "60s").WithContext(ctx).Should(Equal("3Gi"))
		Eventually(pgReady).WithContext(ctx).WithArguments(pg).Should(Equal("True Ready"))
		fake.Update(func(d *databases) { Expect(d.Replaced).To(BeEmpty()) })
	})

	It("leaves volumes and passwords behind, and finds them again", func(ctx context.Context) {
		namespace, _ := newDatabases(ctx)
		pg := newPostgreSQL(namespace, "again", instances(2))
		createDatabase(ctx, pg)
		secret := secretOf(pg, "-credentials")
		Expect(read(ctx, secret)).To(Succeed())
		Expect(secret.OwnerReferences).To(BeEmpty())
		before := string(secret.Data["password"])
		Expect(user.Delete(ctx, pg)).To(Succeed())

		By("creating it again with one instance, while the former pods terminate")
		pg = newPostgreSQL(namespace, "again")
		Expect(user.Create(ctx, pg)).To(Succeed())
		lease := &coordinationv1.Lease{ObjectMeta: setOf(pg).ObjectMeta}
		Eventually(func(ctx context.Context) (bool, error) {
			err := read(ctx, lease)
			return metav1.IsControlledBy(lease, pg), client.IgnoreNotFound(err)
		}).WithContext(ctx).Should(BeTrue())
		Expect(lease.Annotations).NotTo(HaveKey("fettle.dev/fresh"), "an empty database could be made beside the old volumes")
		orphaned := And(HavePrefix("False OrphanedVolumes: "), ContainSubstring(": data-again-1. "))
		Eventually(pgSays(pg, databasev1alpha1.PostgreSQLVolumesReady)).WithContext(ctx).Should(orphaned, "its data may be newer")
		Eventually(func(ctx context.Context) string { return pgCondition(ctx, pg, databasev1alpha1.PostgreSQLPrimaryReady) }).
			WithContext(ctx).Should(Equal("True PrimaryReady"))
		Eventually(pgReady).WithContext(ctx).WithArguments(pg).Should(Equal("True OrphanedVolumes"))
		Expect(read(ctx, secret)).To(Succeed())
		Expect(string(secret.Data["password"])).To(Equal(before))

		By("raising replicas, and scaling down the new instances")
		changeDatabase(ctx, pg, func(pg *databasev1alpha1.PostgreSQL) { pg.Spec.Replicas = new(int32(2)) })
		Eventually(pgReady).WithContext(ctx).WithArguments(pg).Should(Equal("True Ready"))
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data-again-1"}}
		Eventually(field(claim, func(c *corev1.PersistentVolumeClaim) map[string]string { return c.Annotations })).
			WithContext(ctx).ShouldNot(HaveKey("fettle.dev/unused-by"))
		changeDatabase(ctx, pg, func(pg *databasev1alpha1.PostgreSQL) { pg.Spec.Replicas = new(int32(1)) })
		Eventually(pgReady).WithContext(ctx).WithArguments(pg).Should(Equal("True Ready"))
	})

	It("waits for a person to decide about an orphaned volume, and uses volumes that people created", func(ctx context.Context) {
		namespace, _ := newDatabases(ctx)
		pg := newPostgreSQL(namespace, "restored")
		for _, name := range []string{"data-restored-0", "data-restored-3"} {
			Expect(user.Create(ctx, &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				},
			})).To(Succeed())
		}
		Expect(user.Create(ctx, pg)).To(Succeed())
		Eventually(pgSays(pg, fettlev1.Ready)).WithContext(ctx).Should(
			And(HavePrefix("False OrphanedVolumes: "), ContainSubstring(": data-restored-3. ")))
		lease := &coordinationv1.Lease{ObjectMeta: setOf(pg).ObjectMeta}
		Expect(read(ctx, lease)).To(Succeed())
		Expect(lease.Annotations).NotTo(HaveKey("fettle.dev/fresh"), "an empty database could be made beside the restored volume")
		used := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data-restored-0"}}
		Expect(read(ctx, used)).To(Succeed())
		Expect(used.Labels).To(HaveKeyWithValue("fettle.dev/owner-name", "restored"))

		By("acknowledging it")
		unused := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data-restored-3"}}
		patch(ctx, unused, `{"metadata":{"annotations":{"fettle.dev/unused-by":null}}}`)
		Eventually(pgReady).WithContext(ctx).WithArguments(pg).Should(Equal("True Ready"))
	})

	It("deletes volumes by the last spec alone", func(ctx context.Context) {
		namespace, _ := newDatabases(ctx)
		deletes := func(s *databasev1alpha1.PostgreSQLSpec) { s.DeletionPolicy = databasev1alpha1.DeletionDelete }
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data-dropping-0"}}

		By("changing it to Retain just before the deletion")
		pg := newPostgreSQL(namespace, "dropping", deletes)
		createDatabase(ctx, pg)
		Expect(read(ctx, claim)).To(Succeed())
		first := claim.UID
		Expect(claim.OwnerReferences).To(BeEmpty(), "the garbage collector would go by an older spec")
		patch(ctx, pg, `{"spec":{"deletionPolicy":"Retain"}}`)
		Expect(user.Delete(ctx, pg)).To(Succeed())
		Eventually(func(ctx context.Context) bool { return apierrors.IsNotFound(read(ctx, setOf(pg))) }).WithContext(ctx).Should(BeTrue())
		settle(ctx)
		Expect(read(ctx, claim)).To(Succeed())
		Expect(claim.DeletionTimestamp).To(BeNil())

		By("deleting it with Delete, and creating it again at once")
		pg = newPostgreSQL(namespace, "dropping", deletes)
		createDatabase(ctx, pg)
		Expect(read(ctx, claim)).To(Succeed())
		Expect(claim.UID).To(Equal(first))
		Expect(user.Delete(ctx, pg)).To(Succeed())
		pg = newPostgreSQL(namespace, "dropping", deletes)
		createDatabase(ctx, pg)
		Expect(read(ctx, claim)).To(Succeed())
		Expect(claim.UID).NotTo(Equal(first), "it runs on a volume that was to be deleted")
		lease := &coordinationv1.Lease{ObjectMeta: setOf(pg).ObjectMeta}
		Expect(read(ctx, lease)).To(Succeed())
		Expect(lease.Annotations).To(HaveKeyWithValue("fettle.dev/fresh", "true"), "nobody may make the first database")
	})
})
