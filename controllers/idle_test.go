package controllers_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	k8sappsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
	votingv1alpha1 "github.com/fettle-dev/fettle/api/voting/v1alpha1"
)

// each is the number of objects of each kind at rest.
const each = 20

var _ = Describe("20 objects of each kind that are Ready", func() {
	It("cost a write for each child and one for the status, and nothing while idle, when touched, and after a restart", func(ctx context.Context) {
		namespaces := []string{idleWebApps(ctx), idleAppConfigs(ctx), idleVoteConfigs(ctx), idlePostgreSQLs(ctx), idleBackups(ctx), idleStacks(ctx)}
		settle(ctx)

		By("doing nothing")
		everywhere := countRequests(ctx, "")
		settle(ctx)
		everywhere.expectIdle(ctx)

		By("touching each, and all that belongs to it")
		for _, namespace := range namespaces {
			touchAll(ctx, namespace, "1")
		}
		settle(ctx)
		everywhere.expectIdle(ctx)

		By("restarting the operator")
		everywhere = countRequests(ctx, "")
		runningOperator.restart()
		settle(ctx)
		everywhere.expectIdle(ctx)

		By("touching each again")
		for _, namespace := range namespaces {
			touchAll(ctx, namespace, "2")
		}
		settle(ctx)
		everywhere.expectIdle(ctx)
	})
})

// touchAll has another client label and annotate all that is in a namespace and concerns the operator.
func touchAll(ctx context.Context, namespace, value string) {
	GinkgoHelper()
	lists := append(databaseChildren(), &coordinationv1.LeaseList{}, &corev1.PodList{}, &corev1.PersistentVolumeClaimList{},
		&corev1.ConfigMapList{}, &k8sappsv1.DeploymentList{}, &appsv1.WebAppList{}, &configv1.AppConfigList{}, &votingv1alpha1.VoteConfigList{},
		&databasev1alpha1.PostgreSQLList{}, &batchv1.JobList{}, &backupv1alpha1.BackupList{}, &backupv1alpha1.BackupRunList{}, &backupv1alpha1.RestoreList{},
		&platformv1.AppStackList{}, &platformv1.EcommercePlatformList{})
	for _, list := range lists {
		Expect(user.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		Expect(meta.EachListItem(list, func(o runtime.Object) error {
			obj := o.(client.Object)
			if obj.GetName() == "settings" || obj.GetName() == "database" {
				return nil // a new version of a user's Secret costs a read
			}
			patch(ctx, obj, `{"metadata":{"labels":{"example.com/team":%q}}}`, value)
			if _, deployment := o.(*k8sappsv1.Deployment); !deployment || metav1.GetControllerOf(obj) == nil { // it would be a new generation
				patch(ctx, obj, `{"metadata":{"annotations":{"example.com/note":%q}}}`, value)
			}
			return nil
		})).To(Succeed())
	}
}

// databaseChildren are the kinds of the children of a PostgreSQL except the Lease, which does not count as a write.
func databaseChildren() []client.ObjectList {
	return []client.ObjectList{
		&corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &corev1.SecretList{}, &corev1.ServiceList{},
		&policyv1.PodDisruptionBudgetList{}, &networkingv1.NetworkPolicyList{}, &k8sappsv1.StatefulSetList{},
	}
}

// idleStacks are AppStacks of a config, an external database and two web applications.
func idleStacks(ctx context.Context) string {
	GinkgoHelper()
	namespace := newStackNamespace(ctx)
	Expect(user.Create(ctx, databaseSecret(namespace))).To(Succeed())
	requests := countRequests(ctx, namespace)
	var stacks []*platformv1.AppStack
	for i := range each {
		s := newStack(namespace, fmt.Sprintf("stack-%d", i))
		s.Spec.Components = s.Spec.Components[:4] // no pod of a cache runs here
		Expect(user.Create(ctx, s)).To(Succeed())
		stacks = append(stacks, s)
	}
	for _, s := range stacks {
		Eventually(stackReady).WithContext(ctx).WithArguments(s).Should(Equal("True Ready"))
	}
	settle(ctx)
	created := requests.summary(ctx)
	for resource, want := range map[string]int{"webapps.apps.fettle.dev": 2 * each, "appconfigs.config.fettle.dev": each, "appstacks.platform.fettle.dev": each} {
		Expect(to(created, resource, "").Writes()).To(Equal(want), "%s: %s", resource, created.String())
	}
	return namespace
}

func idleWebApps(ctx context.Context) string {
	GinkgoHelper()
	namespace := newNamespace(ctx)
	Expect(user.Create(ctx, configMap(namespace, "a"))).To(Succeed())
	Expect(user.Create(ctx, secret(namespace, "b"))).To(Succeed())
	requests := countRequests(ctx, namespace)
	var apps []*appsv1.WebApp
	children := 0
	for i := range each {
		app := newApp(namespace, fmt.Sprintf("app-%d", i))
		children += 3
		switch i % 4 {
		case 1:
			everything(&app.Spec)
			children += 3
		case 2:
			using(appsv1.ConfigRef{Kind: "ConfigMap", Name: "settings"}, appsv1.ConfigRef{Kind: "Secret", Name: "settings"})(&app.Spec)
			children += 2 // notes of what the pods run
		case 3:
			app.Spec.Rollout.AutoRollback = true
			children++
		}
		Expect(user.Create(ctx, app)).To(Succeed())
		apps = append(apps, app)
	}
	for _, app := range apps {
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
	}
	settle(ctx)
	created := requests.summary(ctx)
	Expect(float64(created.Writes())).To(BeNumerically("<=", 1.1*float64(children+each)), created.String())
	return namespace
}

func idleAppConfigs(ctx context.Context) string {
	GinkgoHelper()
	namespace := newConfigNamespace(ctx)
	Expect(user.Create(ctx, configMap(namespace, "a"))).To(Succeed())
	Expect(user.Create(ctx, secret(namespace, "b"))).To(Succeed())
	requests := countRequests(ctx, namespace)
	var cfgs []*configv1.AppConfig
	children := 0
	for i := range each {
		cfg := newConfig(namespace, fmt.Sprintf("app-%d", i))
		switch i % 4 {
		case 0:
			children += 2
		case 1:
			valuesFrom(&cfg.Spec)
			children += 4
		case 2:
			cfg.Spec.Target.Mode = configv1.TargetVersioned
			children++
		case 3:
			cfg.Spec.Target.HistoryLimit = new(int32(0))
			children++
		}
		Expect(user.Create(ctx, cfg)).To(Succeed())
		cfgs = append(cfgs, cfg)
	}
	for _, cfg := range cfgs {
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("True Ready"))
	}
	settle(ctx)
	created := requests.summary(ctx)
	Expect(created.Writes()).To(Equal(children+each), created.String())

	By("giving each AppConfig a workload")
	for i, cfg := range cfgs {
		createRunning(ctx, consumer(namespace, fmt.Sprintf("web-%d", i), cfg.Status.ConfigMapName))
	}
	for _, cfg := range cfgs {
		Eventually(func() int { _ = read(ctx, cfg); return len(cfg.Status.Dependents) }).WithContext(ctx).Should(Equal(1))
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("True Ready"))
	}
	return namespace
}

func idleVoteConfigs(ctx context.Context) string {
	GinkgoHelper()
	namespace := newVoteNamespace(ctx)
	requests := countRequests(ctx, namespace)
	var votes []*votingv1alpha1.VoteConfig
	for i := range each {
		vc := newVote(namespace, fmt.Sprintf("vote-%d", i), "Cats", "Dogs")
		if i%2 == 0 {
			createRunning(ctx, consumer(namespace, vc.Name, vc.Name+"-config"))
		}
		Expect(user.Create(ctx, vc)).To(Succeed())
		votes = append(votes, vc)
	}
	for _, vc := range votes {
		Eventually(voteReady).WithContext(ctx).WithArguments(vc).Should(Equal("True Ready"))
	}
	settle(ctx)
	created := requests.summary(ctx)
	// The ConfigMap and the status of each, and a note on each workload.
	Expect(float64(created.Writes())).To(BeNumerically("<=", 1.1*float64(2*each+each/2)), created.String())
	return namespace
}

func idlePostgreSQLs(ctx context.Context) string {
	GinkgoHelper()
	namespace, _ := newDatabases(ctx)
	requests := countRequests(ctx, namespace)
	var all []*databasev1alpha1.PostgreSQL
	for i := range each {
		pg := newPostgreSQL(namespace, fmt.Sprintf("db-%d", i), instances(3))
		if i%4 == 3 {
			pg.Spec.Roles = []databasev1alpha1.PostgreSQLRole{{Name: "reader"}}
		}
		Expect(user.Create(ctx, pg)).To(Succeed())
		all = append(all, pg)
	}
	for _, pg := range all {
		Eventually(pgReady, "60s").WithContext(ctx).WithArguments(pg).Should(Equal("True Ready"))
	}
	settle(ctx)
	Expect(warnings(ctx, namespace, "PostgreSQL")).To(BeEmpty())
	created, children := requests.summary(ctx), 0
	for _, list := range databaseChildren() {
		Expect(user.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		children += meta.LenList(list)
	}
	Expect(children).To(BeNumerically(">", each*12))
	// Each child is written once. The status is written when it is Ready, and once before where that takes more than moments.
	status := to(created, "postgresqls.database.fettle.dev", "status").Writes()
	Expect(created.Writes()-status).To(Equal(children), created.String())
	Expect(float64(created.Writes())).To(BeNumerically("<=", 1.1*float64(children+each)), created.String())
	AddReportEntry("writes of creation / (children + 1)", float64(created.Writes())/float64(children+each))
	// Whether there is a Secret is asked of the API server before one with a key or a password is made.
	Expect(to(created, "secrets", "").LiveReads()).To(BeNumerically("<=", 2*each+each/4), created.String())
	return namespace
}

func idleBackups(ctx context.Context) string {
	GinkgoHelper()
	namespace := newBackupNamespace(ctx)
	requests := countRequests(ctx, namespace)
	for i := range each {
		b := newBackup(namespace, fmt.Sprintf("shop-%d", i), func(s *backupv1alpha1.BackupSpec) { s.Schedule = "0 0 1 1 *" })
		Expect(user.Create(ctx, b)).To(Succeed())
		Eventually(readyOf).WithContext(ctx).WithArguments(b).Should(Equal("True Ready"))
		switch {
		case i < 2:
			run := newRun(b, b.Name+"-ended")
			Expect(user.Create(ctx, run)).To(Succeed())
			succeed(ctx, run)
		case i < 4:
			run := newRun(b, b.Name+"-runs")
			Expect(user.Create(ctx, run)).To(Succeed())
			Eventually(readyOf).WithContext(ctx).WithArguments(run).Should(Equal("False Running"))
		}
	}
	for name, from := range map[string]backupv1alpha1.RestoreSource{"ended": {Run: "shop-0-ended"}, "runs": {Run: "shop-1-ended"}, "waits": {Backup: "missing"}} {
		restore := newRestore(namespace, name, from)
		Expect(user.Create(ctx, restore)).To(Succeed())
		Eventually(readyOf).WithContext(ctx).WithArguments(restore).Should(Or(Equal("False Running"), Equal("False BackupMissing")))
		if name == "ended" {
			reportRun(ctx, restore, backupv1alpha1.ReasonSucceeded)
			endJob(ctx, jobNamed(namespace, "restore-ended"), "")
			Eventually(readyOf).WithContext(ctx).WithArguments(restore).Should(Equal("True Succeeded"))
		}
	}
	settle(ctx)
	created := requests.summary(ctx)
	// Setting the owner of a run may be rejected, after another write to the run, and is sent again.
	// A status of each. A run has an owner, its 4 children, and 2 or 1 statuses of its own and of its Backup: those with it, and after it.
	// A Restore has the same without an owner and a Backup's status; one that waits has only a status.
	restores := (4 + 2) + (4 + 1) + 1
	Expect(created.Writes()-rejectedWrites(created)).To(Equal(each+2*(1+4+2+2)+2*(1+4+1+1)+restores), created.String())
	return namespace
}
