package e2e

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

// postgresVersion is that of an image which can be had here: 15, or what POSTGRES_VERSION says.
var postgresVersion = cmp.Or(os.Getenv("POSTGRES_VERSION"), "15")

// otherImage is another name of the same version's image.
func otherImage() string {
	releases := map[string]string{"13": "bullseye", "15": "bookworm", "17": "trixie", "18": "forky"}
	return "docker.io/library/postgres:" + postgresVersion + "-" + cmp.Or(releases[postgresVersion], "bookworm")
}

// postgreSQL applies a PostgreSQL of which spec is what comes under "spec:" besides version and storage, as YAML in one line.
func (n namespaced) postgreSQL(ctx context.Context, name, spec string) {
	GinkgoHelper()
	n.apply(ctx, fmt.Sprintf("apiVersion: database.fettle.dev/v1alpha1\nkind: PostgreSQL\nmetadata: {name: %s}\nspec: {version: %q, storage: 1Gi, %s}\n",
		name, postgresVersion, spec))
}

// databaseReady waits until the PostgreSQL is Ready without a problem at its present generation, and returns it.
func (n namespaced) databaseReady(ctx context.Context, name string) *databasev1alpha1.PostgreSQL {
	GinkgoHelper()
	pg := &databasev1alpha1.PostgreSQL{}
	Eventually(ctx, func(ctx context.Context) (string, error) {
		return n.databaseState(ctx, name, pg)
	}).WithTimeout(2*later).Should(HavePrefix("True Ready: "), "PostgreSQL %s", name)
	return pg
}

// databaseState reads a PostgreSQL, and returns what Ready says of its present generation.
func (n namespaced) databaseState(ctx context.Context, name string, pg *databasev1alpha1.PostgreSQL) (string, error) {
	*pg = databasev1alpha1.PostgreSQL{}
	if err := k8s.Get(ctx, client.ObjectKey{Namespace: n.name, Name: name}, pg); err != nil {
		return "", err
	}
	c := meta.FindStatusCondition(pg.Status.Conditions, fettlev1.Ready)
	if c == nil || c.ObservedGeneration != pg.Generation {
		return "outdated", nil
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message), nil
}

// recovered waits until the PostgreSQL is Ready after something befell its instances, and returns it. No generation tells
// whether a status is from before that, so what it says has to be so of the pods that there are.
func (n namespaced) recovered(ctx context.Context, name string) *databasev1alpha1.PostgreSQL {
	GinkgoHelper()
	pg := &databasev1alpha1.PostgreSQL{}
	Eventually(ctx, func(ctx context.Context) (string, error) {
		state, err := n.databaseState(ctx, name, pg)
		if err != nil || !strings.HasPrefix(state, "True Ready: ") {
			return state, err
		}
		pods := &corev1.PodList{}
		if err := k8s.List(ctx, pods, client.InNamespace(n.name), client.MatchingLabels{"app": name}); err != nil {
			return "", err
		}
		if wrong := differences(pg, pods.Items); len(wrong) > 0 {
			return "outdated: " + strings.Join(wrong, ", "), nil
		}
		return state, nil
	}).WithTimeout(2*later).Should(HavePrefix("True Ready: "), "PostgreSQL %s", name)
	return pg
}

// differences are where pods are not what the status of a Ready PostgreSQL says: all serve, one of them as the primary.
func differences(pg *databasev1alpha1.PostgreSQL, pods []corev1.Pod) (wrong []string) {
	if pg.Spec.Replicas != nil && len(pods) != int(*pg.Spec.Replicas) {
		wrong = append(wrong, fmt.Sprintf("%d pods", len(pods)))
	}
	for i := range pods {
		p, role := &pods[i], databasev1alpha1.LabelRoleReplica
		if p.Name == pg.Status.Primary {
			role = databasev1alpha1.LabelRolePrimary
		}
		ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		if p.DeletionTimestamp != nil || !ready || p.Labels[databasev1alpha1.LabelRole] != role {
			wrong = append(wrong, fmt.Sprintf("%s, which should be a %s: labelled %q, ready %t, deleted at %v",
				p.Name, role, p.Labels[databasev1alpha1.LabelRole], ready, p.DeletionTimestamp))
		}
	}
	return wrong
}

// sql runs a statement in a pod, as the owner of the database, through the Service and over TLS. The pod may be another
// cluster's, and has no certificate to verify the server with.
func (n namespaced) sql(ctx context.Context, pod, cluster, statement string) (string, error) {
	encoded, err := n.try(ctx, "get", "secret", cluster+"-credentials", "-o", "jsonpath={.data.uri}")
	if err != nil {
		return "", err
	}
	uri, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return "", err
	}
	output, err := n.try(ctx, "exec", pod, "--", "psql", "-qtAX", strings.Replace(string(uri), "sslmode=verify-full", "sslmode=require", 1)+"&connect_timeout=3", "-c", statement)
	return strings.TrimSpace(output), err
}

// answers runs a statement that may be run again until the answer is that: who is behind the Service is known to kube-proxy
// later than to the operator, and a primary that ends may still have answered before.
func (n namespaced) answers(ctx context.Context, pod, cluster, statement, answer string) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) (string, error) {
		return n.sql(ctx, pod, cluster, "set client_min_messages = warning; "+statement)
	}).WithTimeout(later).Should(Equal(answer), statement)
}

func postgresSpecs() {
	Describe("with volumes", volumeSpecs)
	postgresUpdateSpecs()
	postgresImportSpecs()
	Describe("of the samples", Ordered, postgresCommandSpecs)
	Describe("of other versions and images", Ordered, ContinueOnFailure, postgresVersionSpecs)

	Describe("with one instance", Ordered, ContinueOnFailure, func() {
		var ns namespaced
		BeforeAll(func(ctx SpecContext) {
			ns = newNamespace(ctx, map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
		})

		It("becomes Ready, and answers to psql", func(ctx SpecContext) {
			ns.postgreSQL(ctx, "test-db", "databaseName: myapp")
			ns.run(ctx, "wait", "--for=condition=Ready", "postgresql/test-db", "--timeout=300s")
			Expect(ns.run(ctx, "exec", "test-db-0", "--", "psql", "-U", "postgres", "-c", "SELECT version();")).To(ContainSubstring("PostgreSQL " + postgresVersion))
		})

		It("shows readiness, phase, reason, primary, instances and version", func(ctx SpecContext) {
			ns.shows(ctx, MatchRegexp(`^NAME +READY +STATUS +REASON +PRIMARY +INSTANCES +READY-INSTANCES +VERSION +AGE *\ntest-db +True +Running +Ready +test-db-0 +1 +1 +`+postgresVersion+`\S* +\S+ *\n$`),
				"get", "postgresqls")
			ns.shows(ctx, MatchRegexp(`(?m)^test-db +1/1 `), "get", "statefulsets")
			ns.shows(ctx, MatchRegexp(`(?m)^test-db-pods +ClusterIP +None `), "get", "services")
			ns.shows(ctx, MatchRegexp(`(?m)^data-test-db-0 +Bound +\S+ +1Gi +RWO `), "get", "pvc")
		})

		It("lets the owner in through the Service, over TLS, with the password of the Secret", func(ctx SpecContext) {
			ns.answers(ctx, "test-db-0", "test-db", "create table if not exists t(a int primary key); insert into t values (1) on conflict do nothing; "+
				"select current_user, count(*) from t", "myapp|1")
			ns.answers(ctx, "test-db-0", "test-db", "select ssl from pg_stat_ssl where pid = pg_backend_pid()", "t")
		})

		It("reuses its data when it is re-created with the same name", func(ctx SpecContext) {
			ns.run(ctx, "delete", "postgresql", "test-db")
			ns.run(ctx, "wait", "--for=delete", "pod/test-db-0", "--timeout=300s")
			ns.postgreSQL(ctx, "test-db", "databaseName: myapp")
			ns.databaseReady(ctx, "test-db")
			ns.answers(ctx, "test-db-0", "test-db", "select count(*) from t", "1")
		})
	})

	Describe("with three instances", Ordered, func() {
		var ns namespaced
		var pg *databasev1alpha1.PostgreSQL
		rows := 0
		// write inserts a row, trying again for as long as a failover may take.
		write := func(ctx SpecContext) {
			GinkgoHelper()
			rows++
			ns.answers(ctx, "client-0", "three", fmt.Sprintf("insert into ledger values (%d) on conflict do nothing", rows), "")
			ns.answers(ctx, "client-0", "three", "select count(*) from ledger", fmt.Sprint(rows))
		}
		BeforeAll(func(ctx SpecContext) {
			ns = newNamespace(ctx, nil)
			ns.postgreSQL(ctx, "client", "replicas: 1") // its pod has psql, and stays
			ns.postgreSQL(ctx, "three", "replicas: 3, synchronous: {number: 1}, roles: [{name: reader, inRoles: [pg_monitor]}], extensions: [plpgsql]")
			ns.databaseReady(ctx, "client")
		})

		It("becomes Ready, with two replicas", func(ctx SpecContext) {
			pg = ns.databaseReady(ctx, "three")
			Expect(pg.Status.ReadyInstances).To(BeEquivalentTo(3))
			ns.shows(ctx, MatchRegexp(`^pod/\S+\npod/\S+\n$`), "get", "pods", "-l", "app=three,fettle.dev/role=replica", "-o", "name")
			ns.answers(ctx, "client-0", "three", "create table if not exists ledger(id int primary key)", "")
			write(ctx)
		})

		It("accepts writes again after the primary's pod was deleted, and has lost none", func(ctx SpecContext) {
			ns.run(ctx, "delete", "pod", pg.Status.Primary, "--grace-period=1", "--wait=false")
			write(ctx)
			pg = ns.recovered(ctx, "three")
			write(ctx)
		})

		It("hands over when it is asked to", func(ctx SpecContext) {
			to := "three-0"
			if pg.Status.Primary == to {
				to = "three-1"
			}
			ns.run(ctx, "annotate", "postgresql", "three", "fettle.dev/switchover="+to)
			ns.shows(ctx, Equal("pod/"+to+"\n"), "get", "pods", "-l", "app=three,fettle.dev/role=primary", "-o", "name")
			write(ctx)
			pg = ns.recovered(ctx, "three")
			Expect(pg.Status.Primary).To(Equal(to))
			ns.shows(ctx, Not(ContainSubstring("switchover")), "get", "postgresql", "three", "-o", "jsonpath={.metadata.annotations}")
		})

		It("restarts its instances one at a time for a parameter that needs it", func(ctx SpecContext) {
			ns.run(ctx, "patch", "postgresql", "three", "--type=merge", "-p", `{"spec":{"parameters":{"max_connections":"123"}}}`)
			pg = ns.databaseReady(ctx, "three")
			for i := range 3 {
				Expect(ns.run(ctx, "exec", fmt.Sprintf("three-%d", i), "--", "psql", "-qtAX", "-d", "postgres", "-c", "show max_connections")).To(Equal("123\n"))
			}
			write(ctx)
		})

		It("scales down and up again", func(ctx SpecContext) {
			ns.run(ctx, "patch", "postgresql", "three", "--type=merge", "-p", `{"spec":{"replicas":2}}`)
			ns.run(ctx, "wait", "--for=delete", "pod/three-2", "--timeout=300s")
			Expect(ns.databaseReady(ctx, "three").Status.ReadyInstances).To(BeEquivalentTo(2))
			write(ctx)
			ns.run(ctx, "patch", "postgresql", "three", "--type=merge", "-p", `{"spec":{"replicas":3}}`)
			Expect(ns.databaseReady(ctx, "three").Status.ReadyInstances).To(BeEquivalentTo(3))
			write(ctx)
		})

		databaseFaultSpecs(&ns, "three")
	})
}
