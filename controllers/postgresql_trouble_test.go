package controllers_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/test/audit"
)

// pgSays reads pg again and says the status, reason and message of a condition.
func pgSays(pg *databasev1alpha1.PostgreSQL, conditionType string) func(context.Context) string {
	return func(ctx context.Context) string {
		state := pgCondition(ctx, pg, conditionType)
		if c := meta.FindStatusCondition(pg.Status.Conditions, conditionType); c != nil {
			return state + ": " + c.Message
		}
		return state
	}
}

// expectNothingDeleted asserts that the operator deleted nothing since the mark.
func (l requestCounts) expectNothingDeleted(ctx context.Context) {
	GinkgoHelper()
	summary := l.summary(ctx)
	Expect(summary.Where(func(k audit.Key) bool { return k.Verb == "delete" || k.Verb == "deletecollection" }).Writes()).To(BeZero(), summary.String())
}

var _ = Describe("A PostgreSQL in trouble", func() {
	DescribeTable("names the instance, says what to do, and deletes nothing",
		func(ctx context.Context, conditionType, expected string, change func(*databases)) {
			namespace, fake := newDatabases(ctx)
			fake.Update(change)
			requests := countRequests(ctx, namespace)
			pg := newPostgreSQL(namespace, "ill", instances(2))
			Expect(user.Create(ctx, pg)).To(Succeed())
			Eventually(pgSays(pg, conditionType), "90s").WithContext(ctx).Should(MatchRegexp(expected))
			Expect(pgReady(ctx, pg)).NotTo(Equal("True Ready"))
			requests.expectNothingDeleted(ctx)

			By("mending it")
			fake.Update(func(d *databases) {
				clear(d.NotReady)
				clear(d.Unschedulable)
				clear(d.UsedPercent)
			})
			if conditionType == databasev1alpha1.PostgreSQLVolumesReady {
				return // it takes a minute until the agents are asked again
			}
			Eventually(pgReady, "60s").WithContext(ctx).WithArguments(pg).Should(Equal("True Ready"))
			requests.expectNothingDeleted(ctx)
		},
		Entry("the image of a replica can't be pulled", databasev1alpha1.PostgreSQLInstancesReady, `^False ImagePullBackOff: pod ill-1 cannot pull image`,
			func(d *databases) { d.NotReady["ill-1"] = "ImagePullBackOff" }),
		Entry("a disk that is full", databasev1alpha1.PostgreSQLVolumesReady, `^False DiskFull: the volume of ill-1 is 95% or more full: raise spec.storage, or set spec.autoGrow$`,
			func(d *databases) { d.UsedPercent["ill-1"] = 97 }),
	)

	It("says which claim can't grow and why, and keeps the database running", func(ctx context.Context) {
		namespace, fake := newDatabases(ctx)
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Provisioner: "example.com/fake", AllowVolumeExpansion: new(true)}
		Expect(user.Create(ctx, class)).To(Succeed())
		pg := newPostgreSQL(namespace, "stuck", instances(2), func(s *databasev1alpha1.PostgreSQLSpec) { s.StorageClassName = &class.Name })
		createDatabase(ctx, pg)
		fake.Update(func(d *databases) { d.ResizeErrors["stuck-1"] = "the pool is exhausted" })
		changeDatabase(ctx, pg, func(pg *databasev1alpha1.PostgreSQL) { pg.Spec.Storage = resource.MustParse("2Gi") })
		Eventually(pgSays(pg, databasev1alpha1.PostgreSQLVolumesReady)).WithContext(ctx).Should(
			Equal("False VolumeStuck: PVC data-stuck-1 cannot be resized: the pool is exhausted"))
		Expect(pgCondition(ctx, pg, databasev1alpha1.PostgreSQLPrimaryReady)).To(Equal("True PrimaryReady"))
		fake.Update(func(d *databases) {
			Expect(d.Replaced).To(BeEmpty())
			clear(d.ResizeErrors)
		})
		Eventually(pgReady, "60s").WithContext(ctx).WithArguments(pg).Should(Equal("True Ready"))
	})

	It("reports that the API server rejects the growth of a StorageClass without expansion", func(ctx context.Context) {
		namespace, _ := newDatabases(ctx)
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Provisioner: "example.com/fake"}
		Expect(user.Create(ctx, class)).To(Succeed())
		pg := newPostgreSQL(namespace, "rigid", func(s *databasev1alpha1.PostgreSQLSpec) { s.StorageClassName = &class.Name })
		createDatabase(ctx, pg)
		changeDatabase(ctx, pg, func(pg *databasev1alpha1.PostgreSQL) { pg.Spec.Storage = resource.MustParse("2Gi") })
		Eventually(pgSays(pg, databasev1alpha1.PostgreSQLVolumesReady)).WithContext(ctx).Should(
			And(HavePrefix("False VolumeStuck: "), ContainSubstring("data-rigid-0"), ContainSubstring("allowVolumeExpansion")))
		Expect(pgCondition(ctx, pg, databasev1alpha1.PostgreSQLPrimaryReady)).To(Equal("True PrimaryReady"))
	})

	It("grows automatically, step by step, up to autoGrow.max", func(ctx context.Context) {
		namespace, fake := newDatabases(ctx)
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Provisioner: "example.com/fake", AllowVolumeExpansion: new(true)}
		Expect(user.Create(ctx, class)).To(Succeed())
		fake.Update(func(d *databases) { d.UsedPercent["filling-1"] = 250 }) // of 1Gi: it is full until there are 3Gi, and then below the threshold
		pg := newPostgreSQL(namespace, "filling", instances(2), func(s *databasev1alpha1.PostgreSQLSpec) {
			s.StorageClassName = &class.Name
			s.AutoGrow = &databasev1alpha1.PostgreSQLAutoGrow{Threshold: 90, Step: "1Gi", Max: resource.MustParse("5Gi")}
		})
		createDatabase(ctx, pg)
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data-filling-0"}}
		size := field(claim, func(c *corev1.PersistentVolumeClaim) string { return c.Spec.Resources.Requests.Storage().String() })
		Expect(size(ctx)).To(Equal("3Gi"), "all volumes grow together")
		fake.Update(func(d *databases) { Expect(d.Replaced).To(BeEmpty()) })
		Consistently(size).WithContext(ctx).Should(Equal("3Gi"))
	})

	It("does not replace an authority that can't be read, and says how to go on", func(ctx context.Context) {
		namespace, _ := newDatabases(ctx)
		pg := newPostgreSQL(namespace, "broken")
		createDatabase(ctx, pg)
		authority := secretOf(pg, "-ca")
		patch(ctx, authority, `{"stringData":{"tls.key":"nonsense"}}`)
		Eventually(pgSays(pg, fettlev1.Ready)).WithContext(ctx).Should(
			And(HavePrefix("True Invalid: "), ContainSubstring(`"broken-ca"`), ContainSubstring("restore it, or delete it")))
		Expect(read(ctx, authority)).To(Succeed())
		Expect(string(authority.Data["tls.key"])).To(Equal("nonsense"))
		Expect(user.Delete(ctx, authority)).To(Succeed())
		Eventually(pgReady, "60s").WithContext(ctx).WithArguments(pg).Should(Equal("True Ready"))
	})

	It("warns of a switchover to an unknown instance, and removes the annotation", func(ctx context.Context) {
		namespace, _ := newDatabases(ctx)
		pg := newPostgreSQL(namespace, "nobody")
		createDatabase(ctx, pg)
		patch(ctx, pg, `{"metadata":{"annotations":{"fettle.dev/switchover":"nobody-7"}}}`)
		Eventually(field(pg, func(pg *databasev1alpha1.PostgreSQL) map[string]string { return pg.Annotations })).WithContext(ctx).
			ShouldNot(HaveKey("fettle.dev/switchover"))
		Eventually(warnings).WithContext(ctx).WithArguments(namespace, "PostgreSQL").Should(ConsistOf(
			`nobody Switchover: the annotation fettle.dev/switchover names "nobody-7", which is no instance: it is removed`))
		Eventually(pgReady).WithContext(ctx).WithArguments(pg).Should(Equal("True Ready"))
	})

	It("removes the consent to data loss when it is no longer needed", func(ctx context.Context) {
		namespace, _ := newDatabases(ctx)
		pg := newPostgreSQL(namespace, "accepted")
		createDatabase(ctx, pg)
		for _, pod := range []string{"accepted-7", "accepted-0"} {
			patch(ctx, pg, `{"metadata":{"annotations":{"fettle.dev/accept-data-loss":%q}}}`, pod)
			Eventually(field(pg, func(pg *databasev1alpha1.PostgreSQL) map[string]string { return pg.Annotations })).WithContext(ctx).
				ShouldNot(HaveKey("fettle.dev/accept-data-loss"))
		}
		Eventually(pgReady).WithContext(ctx).WithArguments(pg).Should(Equal("True Ready"))
	})

	It("gives an instance that does not serve a token of the present ServiceAccount", func(ctx context.Context) {
		namespace, fake := newDatabases(ctx)
		pg := newPostgreSQL(namespace, "token")
		createDatabase(ctx, pg)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "token-0"}}
		Expect(read(ctx, pod)).To(Succeed())
		former := pod.UID
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pg.Name}}
		Eventually(func(ctx context.Context) (bool, error) { // times of creation are whole seconds
			if err := read(ctx, account); err != nil || pod.CreationTimestamp.Before(&account.CreationTimestamp) {
				return err == nil, client.IgnoreNotFound(err)
			}
			return false, client.IgnoreNotFound(user.Delete(ctx, account))
		}).WithContext(ctx).WithTimeout(time.Minute).Should(BeTrue())
		fake.Update(func(d *databases) {
			d.NotReady[pod.Name] = "ContainerCreating"
			d.ChangeStatus[pod.Name] = func(s *agentapi.Status) { s.Unauthorized = s.PodUID == string(former) }
		})
		Eventually(func(ctx context.Context) (bool, error) {
			err := read(ctx, pod)
			return pod.UID != former, client.IgnoreNotFound(err)
		}).WithContext(ctx).WithTimeout(time.Minute).Should(BeTrue())
		fake.Update(func(d *databases) { delete(d.NotReady, pod.Name) })
		Eventually(pgReady).WithContext(ctx).WithTimeout(time.Minute).WithArguments(pg).Should(Equal("True Ready"))
	})

	It("starts no instance with foreign certificates", func(ctx context.Context) {
		namespace, _ := newDatabases(ctx)
		foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "trap-server"}, StringData: map[string]string{"tls.key": "theirs"}}
		Expect(user.Create(ctx, foreign)).To(Succeed())
		pg := newPostgreSQL(namespace, "trap")
		Expect(user.Create(ctx, pg)).To(Succeed())
		Eventually(pgSays(pg, fettlev1.Ready)).WithContext(ctx).Should(And(HavePrefix("False NameConflict: "), ContainSubstring("trap-server")))
		Expect(apierrors.IsNotFound(read(ctx, setOf(pg)))).To(BeTrue())
		Expect(read(ctx, foreign)).To(Succeed())
		Expect(foreign.Data).To(Equal(map[string][]byte{"tls.key": []byte("theirs")}))
		Expect(user.Delete(ctx, foreign)).To(Succeed())
		Eventually(pgReady, "60s").WithContext(ctx).WithArguments(pg).Should(Equal("True Ready"))
	})
})
