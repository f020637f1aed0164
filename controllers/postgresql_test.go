package controllers_test

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/testenv/testscram"
)

var _ = Describe("A PostgreSQL", func() {
	It("becomes Ready with one instance, and says how to reach it", func(ctx context.Context) {
		namespace, fake := newDatabases(ctx)
		pg := newPostgreSQL(namespace, "my-postgres", func(s *databasev1alpha1.PostgreSQLSpec) { s.DatabaseName = "myapp" })
		requests := countRequests(ctx, namespace)
		createDatabase(ctx, pg)
		Expect(pg.Status.Phase).To(Equal(databasev1alpha1.PhaseRunning))
		Expect(pg.Status.Ready).To(BeTrue())
		Expect(pg.Status.Primary).To(Equal("my-postgres-0"))
		Expect(pg.Status.ReadyInstances).To(BeEquivalentTo(1))
		Expect(pg.Status.Timeline).To(BeEquivalentTo(1))
		Expect(pg.Status.ConnectionString).To(Equal(fmt.Sprintf("postgresql://myapp@my-postgres.%s.svc:5432/myapp?sslmode=verify-full", namespace)))
		secret := secretOf(pg, "-credentials")
		Expect(read(ctx, secret)).To(Succeed())
		Expect(secret.Data).To(HaveKeyWithValue("user", []byte("myapp")))
		Expect(string(secret.Data["POSTGRES_PASSWORD"])).To(HaveLen(32))
		Expect(string(secret.Data["uri"])).To(ContainSubstring(string(secret.Data["password"])))
		server := secretOf(pg, "-server")
		Expect(read(ctx, server)).To(Succeed())
		Expect(vouches(secret.Data["ca.crt"], server.Data["tls.crt"], string(secret.Data["host"]))).To(Succeed())
		fake.Update(func(d *databases) {
			Expect(d.Applied).NotTo(BeEmpty())
			Expect(d.Applied[0].Roles[0].Verifier).To(HavePrefix("SCRAM-SHA-256$"))
			Expect(d.Applied[0].Databases[0].Name).To(Equal("myapp"))
		})
		settle(ctx)
		// ServiceAccount, Role, RoleBinding, 3 Services, 4 Secrets, Lease, StatefulSet, NetworkPolicy; and 2 or 3 times the status.
		Expect(requests.summary(ctx).Writes()).To(BeNumerically("<=", 16), requests.summary(ctx).String())
	})

	It("replaces instances one at a time when the template changes, the primary last", func(ctx context.Context) {
		namespace, fake := newDatabases(ctx)
		pg := newPostgreSQL(namespace, "rolling", instances(3))
		createDatabase(ctx, pg)
		changeDatabase(ctx, pg, func(pg *databasev1alpha1.PostgreSQL) {
			pg.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}
		})
		Eventually(pgReady, "60s").WithContext(ctx).WithArguments(pg).Should(Equal("True Ready"))
		fake.Update(func(d *databases) {
			Expect(d.Replaced).To(Equal([]string{"rolling-2", "rolling-1", "rolling-0"}))
		})
		Expect(pg.Status.Primary).NotTo(Equal("rolling-0"))
		Eventually(field(pg, func(pg *databasev1alpha1.PostgreSQL) string {
			return pg.Annotations[databasev1alpha1.AnnotationSwitchover]
		})).
			WithContext(ctx).Should(BeEmpty())
	})

	It("restarts instances that say they need it, in the same order", func(ctx context.Context) {
		namespace, fake := newDatabases(ctx)
		pg := newPostgreSQL(namespace, "restarting", instances(2))
		createDatabase(ctx, pg)
		fake.Update(func(d *databases) {
			for _, pod := range []string{"restarting-0", "restarting-1"} {
				d.PendingRestart[pod] = []string{"max_connections"}
			}
		})
		changeDatabase(ctx, pg, func(pg *databasev1alpha1.PostgreSQL) {
			pg.Spec.Parameters = map[string]intstr.IntOrString{"max_connections": intstr.FromString("50")}
		})
		Eventually(pgReady, "60s").WithContext(ctx).WithArguments(pg).Should(Equal("True Ready"))
		fake.Update(func(d *databases) {
			Expect(d.Restarted).To(Equal([]string{"restarting-1", "restarting-0"}))
			Expect(d.Replaced).To(BeEmpty())
		})
	})

	It("gives the owner another name, and the password of the user's own Secret", func(ctx context.Context) {
		namespace, fake := newDatabases(ctx)
		pg := newPostgreSQL(namespace, "owned", func(s *databasev1alpha1.PostgreSQLSpec) {
			s.Owner = databasev1alpha1.PostgreSQLOwner{Name: "shop_owner", PasswordSecret: &fettlev1.SecretKeyReference{Name: "mine", Key: "pw"}}
		})
		Expect(user.Create(ctx, pg)).To(Succeed())
		configured := func() string { return pgCondition(ctx, pg, databasev1alpha1.PostgreSQLConfigured) }
		Eventually(configured, "60s").WithContext(ctx).Should(Equal("False SecretMissing"))
		Expect(meta.FindStatusCondition(pg.Status.Conditions, databasev1alpha1.PostgreSQLConfigured).Message).To(HavePrefix(`spec.owner: Secret "mine"`))
		Expect(apierrors.IsNotFound(read(ctx, secretOf(pg, "-credentials")))).To(BeTrue(), "a password was generated")

		mine := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mine"}, Data: map[string][]byte{"pw": []byte("first")}}
		Expect(user.Create(ctx, mine)).To(Succeed())
		Eventually(pgReady, "60s").WithContext(ctx).WithArguments(pg).Should(Equal("True Ready"))
		secret := secretOf(pg, "-credentials")
		Expect(read(ctx, secret)).To(Succeed())
		Expect(secret.Data).To(And(HaveKeyWithValue("user", []byte("shop_owner")), HaveKeyWithValue("dbname", []byte("app")), HaveKeyWithValue("password", []byte("first"))))
		verifier := func() (v string) {
			fake.Update(func(d *databases) {
				if len(d.Applied) == 0 {
					return // Ready does not wait for the roles
				}
				last := d.Applied[len(d.Applied)-1]
				Expect(last.Roles[0].Name).To(Equal("shop_owner"))
				Expect(last.Databases[0]).To(And(HaveField("Name", "app"), HaveField("Owner", "shop_owner")))
				v = last.Roles[0].Verifier
			})
			return v
		}
		Eventually(verifier, "30s").WithContext(ctx).ShouldNot(BeEmpty())
		former := verifier()

		By("changing the password")
		mine.Data["pw"] = []byte("second")
		Expect(user.Update(ctx, mine)).To(Succeed())
		Eventually(verifier, "30s").WithContext(ctx).ShouldNot(Equal(former))
		Expect(read(ctx, secret)).To(Succeed())
		Expect(secret.Data).To(HaveKeyWithValue("password", []byte("second")))
	})

	It("is scaled by the scale subresource", func(ctx context.Context) {
		namespace, _ := newDatabases(ctx)
		pg := newPostgreSQL(namespace, "scale")
		createDatabase(ctx, pg)
		scale := &autoscalingv1.Scale{}
		Expect(user.SubResource("scale").Get(ctx, pg, scale)).To(Succeed())
		Expect(scale.Spec.Replicas).To(BeEquivalentTo(1))
		Expect(scale.Status).To(Equal(autoscalingv1.ScaleStatus{Replicas: 1, Selector: "fettle.dev/owner-kind=PostgreSQL,fettle.dev/owner-name=scale"}))
		scale.Spec.Replicas = 2
		Expect(user.SubResource("scale").Update(ctx, pg, client.WithSubResourceBody(scale))).To(Succeed())
		Eventually(field(pg, func(pg *databasev1alpha1.PostgreSQL) int32 { return pg.Status.ReadyInstances }), "60s").WithContext(ctx).Should(BeEquivalentTo(2))
		Expect(pg.Status.Instances).To(BeEquivalentTo(2))
	})

	It("switches over before it removes the primary, and keeps its volume", func(ctx context.Context) {
		namespace, _ := newDatabases(ctx)
		pg := newPostgreSQL(namespace, "scaling", instances(3))
		createDatabase(ctx, pg)
		changeDatabase(ctx, pg, func(pg *databasev1alpha1.PostgreSQL) {
			pg.Annotations = map[string]string{databasev1alpha1.AnnotationSwitchover: "2"}
		})
		Eventually(field(pg, func(pg *databasev1alpha1.PostgreSQL) string { return pg.Status.Primary })).WithContext(ctx).Should(Equal("scaling-2"))
		changeDatabase(ctx, pg, func(pg *databasev1alpha1.PostgreSQL) { pg.Spec.Replicas = new(int32(1)) })
		Eventually(pgReady, "60s").WithContext(ctx).WithArguments(pg).Should(Equal("True Ready"))
		Expect(pg.Status.Primary).To(Equal("scaling-0"))
		Expect(pg.Status.ReadyInstances).To(BeEquivalentTo(1))
		claim := &corev1.PersistentVolumeClaim{}
		Expect(user.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "data-scaling-2"}, claim)).To(Succeed())
		Expect(claim.DeletionTimestamp).To(BeNil())
	})

	It("rotates a password: the server learns of it before the Secret says it", func(ctx context.Context) {
		namespace, fake := newDatabases(ctx)
		pg := newPostgreSQL(namespace, "rotating")
		createDatabase(ctx, pg)
		secret := secretOf(pg, "-credentials")
		Expect(read(ctx, secret)).To(Succeed())
		first := string(secret.Data["password"])
		patch(ctx, secret, `{"metadata":{"annotations":{"fettle.dev/rotate":"1"}}}`)
		Eventually(field(secret, func(s *corev1.Secret) string { return s.Annotations["fettle.dev/rotated"] })).WithContext(ctx).Should(Equal("1"))
		second := string(secret.Data["password"])
		Expect(second).NotTo(Equal(first))
		Expect(string(secret.Data["user"])).To(Equal("fettle_login_app"))
		Expect(secret.Data).NotTo(HaveKey(HavePrefix("password-next")))
		Expect(string(secret.Data["uri"])).To(ContainSubstring("//fettle_login_app:" + second + "@"))
		Eventually(field(pg, func(pg *databasev1alpha1.PostgreSQL) string { return pg.Status.ConnectionString })).
			WithContext(ctx).Should(HavePrefix("postgresql://fettle_login_app@"))
		fake.Update(func(d *databases) {
			Expect(slices.ContainsFunc(d.Applied, func(wish agentapi.Desired) bool { return testscram.Matches(wish.Roles[0].SecondLogin.Verifier, second) })).To(BeTrue())
			for _, wish := range d.Applied { // the login that clients have read before keeps its password
				Expect(wish.Roles[0].Verifier).To(Or(BeEmpty(), Satisfy(func(v string) bool { return testscram.Matches(v, first) })))
			}
		})

		By("taking the request away, which asks for nothing")
		patch(ctx, secret, `{"metadata":{"annotations":{"fettle.dev/rotate":null}}}`)
		settle(ctx)
		Expect(read(ctx, secret)).To(Succeed())
		Expect(string(secret.Data["password"])).To(Equal(second))
	})

	It("reports invalid parameters, Secrets and preferences, and continues without them", func(ctx context.Context) {
		namespace, fake := newDatabases(ctx)
		pg := newPostgreSQL(namespace, "wrong", func(s *databasev1alpha1.PostgreSQLSpec) {
			s.Roles = []databasev1alpha1.PostgreSQLRole{{Name: "reader", PasswordSecret: &fettlev1.SecretKeyReference{Name: "reader"}}}
		})
		fake.Update(func(d *databases) { d.ApplyErrors["reader"] = "no such thing" })
		Expect(user.Create(ctx, pg)).To(Succeed())
		configured := func(ctx context.Context) string { return pgCondition(ctx, pg, databasev1alpha1.PostgreSQLConfigured) }
		Eventually(configured).WithContext(ctx).Should(Equal("False SecretMissing"))
		Expect(user.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "reader"}, Data: map[string][]byte{"password": []byte("secret")},
		})).To(Succeed())
		Eventually(configured).WithContext(ctx).Should(Equal("False ApplyRejected"))
		changeDatabase(ctx, pg, func(pg *databasev1alpha1.PostgreSQL) {
			pg.Spec.Parameters = map[string]intstr.IntOrString{"archive_command": intstr.FromString("true")}
		})
		Eventually(configured).WithContext(ctx).Should(Equal("False ParametersInvalid"))
		Expect(meta.FindStatusCondition(pg.Status.Conditions, databasev1alpha1.PostgreSQLConfigured).Message).To(ContainSubstring("archive_command"))
		Expect(pgCondition(ctx, pg, databasev1alpha1.PostgreSQLPrimaryReady)).To(Equal("True PrimaryReady"))
	})

	It("renews certificates, grows volumes and names the primary while it is paused, and restarts nothing", func(ctx context.Context) {
		namespace, fake := newDatabases(ctx)
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Provisioner: "example.com/fake", AllowVolumeExpansion: new(true)}
		Expect(user.Create(ctx, class)).To(Succeed())
		pg := newPostgreSQL(namespace, "paused", instances(2), func(s *databasev1alpha1.PostgreSQLSpec) { s.StorageClassName = &class.Name })
		createDatabase(ctx, pg)
		set := setOf(pg)
		Expect(read(ctx, set)).To(Succeed())
		generation := set.Generation
		changeDatabase(ctx, pg, func(pg *databasev1alpha1.PostgreSQL) {
			pg.Spec.Paused, pg.Spec.Replicas, pg.Spec.Storage = true, new(int32(3)), resource.MustParse("2Gi")
			pg.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}
			pg.Spec.Roles = []databasev1alpha1.PostgreSQLRole{{Name: "reader"}}
			pg.Annotations = map[string]string{databasev1alpha1.AnnotationSwitchover: "paused-1"} // the agents follow it
		})
		Eventually(pgReady).WithContext(ctx).WithArguments(pg).Should(Equal("True Paused"))
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data-paused-1"}}
		Eventually(field(claim, func(c *corev1.PersistentVolumeClaim) string { return c.Status.Capacity.Storage().String() })).
			WithContext(ctx).Should(Equal("2Gi"))
		Eventually(field(pg, func(pg *databasev1alpha1.PostgreSQL) string { return pg.Status.Primary })).WithContext(ctx).Should(Equal("paused-1"))
		certificate := secretOf(pg, "-replication")
		patch(ctx, certificate, `{"data":{"tls.crt":"b3Zlcg=="}}`)
		Eventually(field(certificate, func(s *corev1.Secret) string { return string(s.Data["tls.crt"]) })).
			WithContext(ctx).Should(HavePrefix("-----BEGIN CERTIFICATE-----"))
		settle(ctx)
		Expect(read(ctx, set)).To(Succeed())
		Expect(set.Generation).To(Equal(generation))
		Expect(apierrors.IsNotFound(read(ctx, secretOf(pg, "-role-reader")))).To(BeTrue())
		Expect(pgCondition(ctx, pg, databasev1alpha1.PostgreSQLConfigured)).To(Equal("Unknown Paused"))
		everywhere := countRequests(ctx, namespace)
		everywhere.expectIdle(ctx)
		fake.Update(func(d *databases) {
			Expect(d.Replaced).To(BeEmpty())
			Expect(d.Restarted).To(BeEmpty())
		})
		changeDatabase(ctx, pg, func(pg *databasev1alpha1.PostgreSQL) { pg.Spec.Paused = false })
		Eventually(pgReady, "90s").WithContext(ctx).WithArguments(pg).Should(Equal("True Ready"))
	})

	It("stops when it is hibernated, and starts again", func(ctx context.Context) {
		namespace, fake := newDatabases(ctx)
		pg := newPostgreSQL(namespace, "sleeping", instances(2))
		createDatabase(ctx, pg)
		fake.Update(func(d *databases) {
			d.ChangeStatus["sleeping-1"] = func(s *agentapi.Status) { s.Phase, s.Ready = agentapi.Running, true }
		})
		changeDatabase(ctx, pg, func(pg *databasev1alpha1.PostgreSQL) { pg.Spec.Hibernated = true })
		settle(ctx)
		Expect(read(ctx, pg)).To(Succeed())
		Expect(pg.Status.Phase).NotTo(Equal(databasev1alpha1.PhaseHibernated), "a pod was taken away under its server")
		Expect(read(ctx, setOf(pg))).To(Succeed())
		fake.Update(func(d *databases) { delete(d.ChangeStatus, "sleeping-1") })
		Eventually(field(pg, func(pg *databasev1alpha1.PostgreSQL) databasev1alpha1.PostgreSQLPhase { return pg.Status.Phase })).
			WithContext(ctx).Should(Equal(databasev1alpha1.PhaseHibernated))
		changeDatabase(ctx, pg, func(pg *databasev1alpha1.PostgreSQL) { pg.Spec.Hibernated = false })
		Eventually(pgReady).WithContext(ctx).WithArguments(pg).Should(Equal("True Ready"))
		Expect(pg.Status.Phase).To(Equal(databasev1alpha1.PhaseRunning))
	})

	It("continues if a foreign Secret has the name of a role's Secret, and reports it", func(ctx context.Context) {
		namespace, fake := newDatabases(ctx)
		pg := newPostgreSQL(namespace, "partly", func(s *databasev1alpha1.PostgreSQLSpec) {
			s.Roles = []databasev1alpha1.PostgreSQLRole{{Name: "reader"}, {Name: "writer"}}
		})
		foreign := secretOf(pg, "-role-reader")
		Expect(user.Create(ctx, foreign)).To(Succeed())
		Expect(user.Create(ctx, pg)).To(Succeed())
		Eventually(pgSays(pg, databasev1alpha1.PostgreSQLConfigured)).WithContext(ctx).Should(
			And(HavePrefix("False NameConflict: "), ContainSubstring(`"partly-role-reader"`), ContainSubstring("role reader")))
		Expect(pgCondition(ctx, pg, databasev1alpha1.PostgreSQLApplied)).To(Equal("True Applied"))
		Expect(pgCondition(ctx, pg, databasev1alpha1.PostgreSQLPrimaryReady)).To(Equal("True PrimaryReady"))
		Expect(read(ctx, secretOf(pg, "-role-writer"))).To(Succeed())
		Expect(read(ctx, foreign)).To(Succeed())
		Expect(foreign.Labels).To(BeEmpty())
		passwords := func() map[string]bool {
			has := map[string]bool{}
			fake.Update(func(d *databases) {
				for _, role := range d.Applied[len(d.Applied)-1].Roles {
					has[role.Name] = role.Verifier != ""
				}
			})
			return has
		}
		Expect(passwords()).To(Equal(map[string]bool{"app": true, "reader": false, "writer": true}))

		By("removing it")
		Expect(user.Delete(ctx, foreign)).To(Succeed())
		patch(ctx, pg, `{"metadata":{"annotations":{"fettle.dev/reconcile-at":"now"}}}`)
		Eventually(pgReady).WithContext(ctx).WithArguments(pg).Should(Equal("True Ready"))
		Eventually(passwords).WithContext(ctx).Should(Equal(map[string]bool{"app": true, "reader": true, "writer": true}))
	})
})
