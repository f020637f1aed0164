package e2e

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

// postgresImportSpecs copy a PostgreSQL into another one, by the recipe of docs/postgresql.md. The certificate is in a Secret
// of its own here, since one that belongs to the source would be made again when it is deleted.
func postgresImportSpecs() {
	It("can be a copy of another one, and needs no Secret any more when it is", func(ctx SpecContext) {
		ns := newNamespace(ctx, restricted)
		ns.postgreSQL(ctx, "origin", "databaseName: shop, deletionPolicy: Delete")
		before := ns.databaseReady(ctx, "origin")
		ns.answers(ctx, "origin-0", "origin", "create table if not exists t(a int primary key); "+
			"insert into t select generate_series(1, 1000) on conflict do nothing; select count(*) from t", "1000")

		ns.postgreSQL(ctx, "copy", "replicas: 2, databaseName: shop, deletionPolicy: Delete, bootstrap: {pgBasebackup: {"+
			"host: origin."+ns.name+".svc, user: streaming_replica, "+
			"clientCertificateSecret: {name: key-of-origin}, caSecret: {name: origin-credentials, key: ca.crt}}}")
		pg := &databasev1alpha1.PostgreSQL{}
		Eventually(ctx, func(ctx context.Context) (string, error) {
			return ns.databaseState(ctx, "copy", pg)
		}).WithTimeout(later).Should(And(HavePrefix("False SecretMissing: "), ContainSubstring(`"key-of-origin"`)))

		ns.copyKey(ctx, "origin-replication", "key-of-origin")
		ns.run(ctx, "delete", "pod", "copy-0") // a pod that runs sees a new Secret later
		copied := ns.databaseReady(ctx, "copy")
		Expect(copied.Status.ReadyInstances).To(BeEquivalentTo(2))
		Eventually(ctx, func(ctx context.Context) (int64, error) {
			_, err := ns.databaseState(ctx, "copy", copied)
			return copied.Status.Timeline, err
		}).WithTimeout(soon).Should(BeNumerically(">", before.Status.Timeline))
		ns.answers(ctx, "copy-0", "copy", "select count(*) from t", "1000")
		ns.answers(ctx, "copy-0", "copy", "insert into t values (1001) on conflict do nothing; select count(*) from t", "1001")
		ns.answers(ctx, "copy-0", "origin", "select count(*) from t", "1000")
		ns.bothHave(ctx, "1001")

		ns.run(ctx, "delete", "secret", "key-of-origin")
		ns.run(ctx, "delete", "pod", "copy-0")
		Expect(ns.recovered(ctx, "copy").Status.ReadyInstances).To(BeEquivalentTo(2))
		ns.bothHave(ctx, "1001")
	}, SpecTimeout(30*time.Minute))
}

// bothHave waits until both instances of the copy have that many rows.
func (n namespaced) bothHave(ctx context.Context, rows string) {
	GinkgoHelper()
	for _, pod := range []string{"copy-0", "copy-1"} {
		Eventually(ctx, func(ctx context.Context) (string, error) {
			output, err := n.try(ctx, "exec", pod, "--", "psql", "-qtAX", "-d", "shop", "-c", "select count(*) from t")
			return strings.TrimSpace(output), err
		}).WithTimeout(soon).Should(Equal(rows), pod)
	}
}

// copyKey makes a Secret of what another one has, and prints nothing of it.
func (n namespaced) copyKey(ctx context.Context, from, to string) {
	GinkgoHelper()
	secret := &corev1.Secret{}
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: n.name, Name: from}, secret)).To(Succeed())
	Expect(k8s.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: n.name, Name: to}, Data: secret.Data})).To(Succeed())
}
