package controllers_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

var _ = Describe("What the agents of a PostgreSQL say", func() {
	It("is asked for again soon while one of them says that it is not ready, though the kubelet says it is", func(ctx context.Context) {
		namespace, fake := newDatabases(ctx)
		pg := newPostgreSQL(namespace, "stale", instances(2))
		createDatabase(ctx, pg)
		fake.Update(func(d *databases) {
			d.ChangeStatus["stale-1"] = func(s *agentapi.Status) { s.Ready, s.Message = false, "still starting" }
		})
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "stale-1"}}
		Expect(user.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
		Eventually(field(pg, func(pg *databasev1alpha1.PostgreSQL) string { return pg.Status.InstanceStatuses[1].Message })).
			WithContext(ctx).Should(ContainSubstring("still starting"))
		Expect(pgReady(ctx, pg)).To(Equal("True InstanceNotReady"))
		fake.Update(func(d *databases) { delete(d.ChangeStatus, "stale-1") })
		// An answer is believed for a minute while nothing happens.
		Eventually(pgReady, "40s").WithContext(ctx).WithArguments(pg).Should(Equal("True Ready"))
	})
})
