package controllers_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

func newPostgreSQL(namespace, name string, change ...func(*databasev1alpha1.PostgreSQLSpec)) *databasev1alpha1.PostgreSQL {
	pg := &databasev1alpha1.PostgreSQL{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       databasev1alpha1.PostgreSQLSpec{Version: "16", Storage: resource.MustParse("1Gi")},
	}
	for _, f := range change {
		f(&pg.Spec)
	}
	return pg
}

func instances(n int32) func(*databasev1alpha1.PostgreSQLSpec) {
	return func(s *databasev1alpha1.PostgreSQLSpec) { s.Replicas = &n }
}

// newDatabases is a namespace for one spec, with the fake of what runs the instances.
func newDatabases(ctx context.Context) (string, *databases) {
	GinkgoHelper()
	name, err := env.NewNamespace(ctx, "postgresql")
	Expect(err).NotTo(HaveOccurred())
	// No garbage collector runs here: what is left would be reconciled during later specs.
	DeferCleanup(func(ctx context.Context) {
		for _, kind := range []client.Object{&databasev1alpha1.PostgreSQL{}, &backupv1alpha1.Backup{}, &backupv1alpha1.BackupRun{}, &backupv1alpha1.Restore{}} {
			Expect(user.DeleteAllOf(ctx, kind, client.InNamespace(name))).To(Succeed())
		}
	})
	return name, startDatabases(ctx, name)
}

// pgCondition reads pg again and says the status and reason of a condition, "old" while it speaks of an older generation.
func pgCondition(ctx context.Context, pg *databasev1alpha1.PostgreSQL, conditionType string) string {
	if err := read(ctx, pg); err != nil {
		return err.Error()
	}
	c := meta.FindStatusCondition(pg.Status.Conditions, conditionType)
	switch {
	case c == nil:
		return "none"
	case c.ObservedGeneration < pg.Generation:
		return "old"
	}
	return string(c.Status) + " " + c.Reason
}

func pgReady(ctx context.Context, pg *databasev1alpha1.PostgreSQL) string {
	return pgCondition(ctx, pg, fettlev1.Ready)
}

func createDatabase(ctx context.Context, pg *databasev1alpha1.PostgreSQL) {
	GinkgoHelper()
	Expect(user.Create(ctx, pg)).To(Succeed())
	Eventually(pgReady).WithContext(ctx).WithArguments(pg).Should(Equal("True Ready"))
}

func changeDatabase(ctx context.Context, pg *databasev1alpha1.PostgreSQL, f func(*databasev1alpha1.PostgreSQL)) {
	GinkgoHelper()
	Expect(read(ctx, pg)).To(Succeed())
	before := pg.DeepCopy()
	f(pg)
	Expect(user.Patch(ctx, pg, client.MergeFrom(before))).To(Succeed())
}

func setOf(pg *databasev1alpha1.PostgreSQL) *k8sappsv1.StatefulSet {
	return &k8sappsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: pg.Namespace, Name: pg.Name}}
}

func secretOf(pg *databasev1alpha1.PostgreSQL, suffix string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: pg.Namespace, Name: pg.Name + suffix}}
}
