package controllers_test

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/postgres/agent"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

var _ = Describe("A Secret of a user's with the password of a role", func() {
	It("can be touched without a write, and a new password reaches the server", func(ctx context.Context) {
		spec := bound{GinkgoTB(), context.WithoutCancel(ctx)}
		ca := testpg.NewCA(spec)
		server := ca.Primary(spec, "touched-0")
		session := server.Client(spec)
		namespace, fake := newDatabases(ctx)
		var answers atomic.Int32
		told := func() int { return int(answers.Load()) }
		fake.Update(func(d *databases) {
			d.Apply = func(ctx context.Context, wish agentapi.Desired) (agentapi.Result, error) {
				defer answers.Add(1)
				return agent.Apply(ctx, session, wish)
			}
		})
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "own"}, Data: map[string][]byte{"password": []byte("first")},
		}
		Expect(user.Create(ctx, secret)).To(Succeed())
		pg := newPostgreSQL(namespace, "touched", func(s *databasev1alpha1.PostgreSQLSpec) {
			s.Roles = []databasev1alpha1.PostgreSQLRole{
				{Name: "reader", PasswordSecret: &fettlev1.SecretKeyReference{Name: secret.Name}}, {Name: "writer"},
			}
		})
		createDatabase(ctx, pg)
		settle(ctx)
		login := connector(ca, server, "reader")
		Expect(login(ctx, "reader", "first")).To(Succeed())
		Expect(read(ctx, pg)).To(Succeed())
		before := roleRows(ctx, server)

		By("touching it as those do who copy it here again and again")
		requests, base := countRequests(ctx, namespace), told()
		for n, change := range []string{
			`{"metadata":{"labels":{"example.com/n":"1"}}}`, `{"metadata":{"annotations":{"example.com/refreshed":"2"}}}`,
			`{"stringData":{"password":"first","comment":"3"}}`, `{"metadata":{"annotations":{"example.com/refreshed":"4"}}}`,
		} {
			patch(ctx, secret, "%s", change)
			Eventually(told).WithContext(ctx).Should(Equal(base + n + 1))
		}
		settle(ctx)
		Expect(told()).To(Equal(base+4), "it was told more than once of one version")
		summary := requests.summary(ctx)
		Expect(summary.Writes()).To(BeZero(), summary.String())
		Expect(summary.LiveReads()).To(BeNumerically("<=", 4), summary.String())
		Expect(roleRows(ctx, server)).To(Equal(before), "the server changed a role")

		By("restarting the operator, which reads the applied hash from the primary")
		requests = countRequests(ctx, namespace)
		runningOperator.restart()
		settle(ctx)
		Expect(told()).To(Equal(base + 4))
		summary = requests.summary(ctx)
		Expect(summary.Writes()).To(BeZero(), summary.String())
		Expect(summary.LiveReads()).To(BeNumerically("<=", 1), summary.String())
		Expect(roleRows(ctx, server)).To(Equal(before), "the server changed a role")

		By("changing the password")
		requests = countRequests(ctx, namespace)
		patch(ctx, secret, `{"stringData":{"password":"second"}}`)
		Eventually(login).WithContext(ctx).WithArguments("reader", "second").Should(Succeed())
		Expect(login(ctx, "reader", "first")).NotTo(Succeed())
		settle(ctx)
		summary = requests.summary(ctx)
		Expect(summary.Writes()).To(BeZero(), summary.String())

		By("restarting the operator again")
		requests = countRequests(ctx, namespace)
		runningOperator.restart()
		settle(ctx)
		requests.expectIdle(ctx)
	})
})

// roleRows are the names of all roles, each with the transaction that has written it last.
func roleRows(ctx context.Context, i *testpg.Instance) (rows string) {
	GinkgoHelper()
	conn, err := pgx.Connect(ctx, fmt.Sprintf("host=%s port=%d user=postgres dbname=postgres", i.SocketDir(), i.Settings.Port))
	Expect(err).NotTo(HaveOccurred())
	defer conn.Close(context.WithoutCancel(ctx))
	Expect(conn.QueryRow(ctx, "SELECT string_agg(rolname || ' ' || xmin, ',' ORDER BY oid) FROM pg_authid").Scan(&rows)).To(Succeed())
	return rows
}
