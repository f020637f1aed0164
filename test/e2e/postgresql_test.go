package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

// postgresVersion is that of an image which can be had here: 15 and 17 are what they say.
const postgresVersion = "15"

// postgreSQL applies a PostgreSQL of which spec is what comes under "spec:" besides version and storage, as YAML in one line.
func (n namespaced) postgreSQL(ctx context.Context, name, spec string) {
	GinkgoHelper()
	n.apply(ctx, fmt.Sprintf("apiVersion: database.fettle.dev/v1alpha1\nkind: PostgreSQL\nmetadata: {name: %s}\nspec: {version: %q, storage: 1Gi, %s}\n",
		name, postgresVersion, spec))
}

// databaseReady waits until the PostgreSQL is Ready at its present generation, and returns it.
func (n namespaced) databaseReady(ctx context.Context, name string) *databasev1alpha1.PostgreSQL {
	GinkgoHelper()
	pg := &databasev1alpha1.PostgreSQL{}
	Eventually(ctx, func(ctx context.Context) (string, error) {
		if err := k8s.Get(ctx, client.ObjectKey{Namespace: n.name, Name: name}, pg); err != nil {
			return "", err
		}
		c := meta.FindStatusCondition(pg.Status.Conditions, fettlev1.Ready)
		if c == nil || c.ObservedGeneration != pg.Generation {
			return "outdated", nil
		}
		return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message), nil
	}).WithTimeout(2 * later).Should(HavePrefix("True "))
	return pg
}

// sql runs a statement in a pod, as the owner of the database, through the Service and over TLS.
func (n namespaced) sql(ctx context.Context, pod, cluster, statement string) (string, error) {
	encoded, err := n.try(ctx, "get", "secret", cluster+"-credentials", "-o", "jsonpath={.data.uri}")
	if err != nil {
		return "", err
	}
	uri, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return "", err
	}
	output, err := n.try(ctx, "exec", pod, "--", "psql", "-qtAX", string(uri)+"&connect_timeout=3", "-c", statement)
	return strings.TrimSpace(output), err
}

func postgresSpecs() {
	Describe("with volumes", volumeSpecs)
	postgresUpdateSpecs()
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

		It("shows version, replicas, phase and readiness", func(ctx SpecContext) {
			table := strings.Split(strings.TrimSpace(ns.run(ctx, "get", "postgresqls")), "\n")
			Expect(strings.Fields(table[0])).To(Equal([]string{"NAME", "VERSION", "REPLICAS", "PHASE", "READY", "PRIMARY", "AGE"}))
			Expect(strings.Fields(table[1])[:6]).To(Equal([]string{"test-db", postgresVersion, "1", "Running", "true", "test-db-0"}))
			Expect(ns.run(ctx, "get", "statefulsets")).To(MatchRegexp(`(?m)^test-db +1/1 `))
			Expect(ns.run(ctx, "get", "services")).To(MatchRegexp(`(?m)^test-db-pods +ClusterIP +None `))
			Expect(ns.run(ctx, "get", "pvc")).To(MatchRegexp(`(?m)^data-test-db-0 +Bound +\S+ +1Gi +RWO `))
		})

		It("lets the owner in through the Service, over TLS, with the password of the Secret", func(ctx SpecContext) {
			Expect(ns.sql(ctx, "test-db-0", "test-db", "create table t(a int); insert into t values (1); select current_user, count(*) from t")).To(Equal("myapp|1"))
			Expect(ns.sql(ctx, "test-db-0", "test-db", "select ssl from pg_stat_ssl where pid = pg_backend_pid()")).To(Equal("t"))
		})

		It("finds its data again when it is made anew under the same name", func(ctx SpecContext) {
			ns.run(ctx, "delete", "postgresql", "test-db")
			ns.run(ctx, "wait", "--for=delete", "pod/test-db-0", "--timeout=90s")
			ns.postgreSQL(ctx, "test-db", "databaseName: myapp")
			ns.databaseReady(ctx, "test-db")
			Expect(ns.sql(ctx, "test-db-0", "test-db", "select count(*) from t")).To(Equal("1"))
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
			insert := fmt.Sprintf("insert into ledger values (%d) on conflict do nothing", rows)
			Eventually(ctx, func(ctx context.Context) error {
				_, err := ns.sql(ctx, "client-0", "three", insert)
				return err
			}).WithTimeout(time.Minute).Should(Succeed())
			Expect(ns.sql(ctx, "client-0", "three", "select count(*) from ledger")).To(Equal(fmt.Sprint(rows)))
		}
		BeforeAll(func(ctx SpecContext) {
			ns = newNamespace(ctx, nil)
			ns.postgreSQL(ctx, "client", "replicas: 1") // its pod has psql, and stays
			ns.postgreSQL(ctx, "three", "replicas: 3, synchronous: {number: 1}, roles: [{name: reader, inRoles: [pg_read_all_data]}], extensions: [plpgsql]")
			ns.databaseReady(ctx, "client")
		})

		It("becomes Ready, with two replicas", func(ctx SpecContext) {
			pg = ns.databaseReady(ctx, "three")
			Expect(pg.Status.ReadyInstances).To(Equal("3/3"))
			Expect(strings.Count(ns.run(ctx, "get", "pods", "-l", "app=three,fettle.dev/role=replica", "-o", "name"), "pod/")).To(Equal(2))
			_, err := ns.sql(ctx, "client-0", "three", "create table ledger(id int primary key)")
			Expect(err).NotTo(HaveOccurred())
			write(ctx)
		})

		It("takes writes again after the primary's pod was deleted, and has lost none", func(ctx SpecContext) {
			ns.run(ctx, "delete", "pod", pg.Status.Primary, "--grace-period=1", "--wait=false")
			write(ctx)
			pg = ns.databaseReady(ctx, "three")
			write(ctx)
		})

		It("hands over when it is asked to", func(ctx SpecContext) {
			to := "three-0"
			if pg.Status.Primary == to {
				to = "three-1"
			}
			ns.run(ctx, "annotate", "postgresql", "three", "fettle.dev/switchover="+to)
			Eventually(ctx, func(ctx context.Context) string {
				return strings.TrimSpace(ns.run(ctx, "get", "pods", "-l", "app=three,fettle.dev/role=primary", "-o", "name"))
			}).WithTimeout(time.Minute).Should(Equal("pod/" + to))
			write(ctx)
			pg = ns.databaseReady(ctx, "three")
			Expect(pg.Status.Primary).To(Equal(to))
			Eventually(ctx, func(ctx context.Context) string {
				return ns.run(ctx, "get", "postgresql", "three", "-o", "jsonpath={.metadata.annotations}")
			}).WithTimeout(soon).ShouldNot(ContainSubstring("switchover"))
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
			ns.run(ctx, "wait", "--for=delete", "pod/three-2", "--timeout=90s")
			Expect(ns.databaseReady(ctx, "three").Status.ReadyInstances).To(Equal("2/2"))
			write(ctx)
			ns.run(ctx, "patch", "postgresql", "three", "--type=merge", "-p", `{"spec":{"replicas":3}}`)
			Expect(ns.databaseReady(ctx, "three").Status.ReadyInstances).To(Equal("3/3"))
			write(ctx)
		})

		databaseFaultSpecs(&ns, "three")
	})
}
