package e2e

import (
	"context"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// nearestVersion is the one next to the sample's whose image can be had here.
const nearestVersion = "17"

// postgresCommandSpecs type what people type who try a database for the first time: the project's own sample, and kubectl.
func postgresCommandSpecs() {
	var ns namespaced
	// table waits for what kubectl get prints, a list of columns for each line, without the age at its end.
	table := func(ctx SpecContext, matcher OmegaMatcher, args ...string) {
		GinkgoHelper()
		Eventually(ctx, func(ctx context.Context) ([][]string, error) {
			output, err := ns.try(ctx, append([]string{"get"}, args...)...)
			var lines [][]string
			for line := range strings.Lines(strings.TrimSpace(output)) {
				fields := strings.Fields(line)
				lines = append(lines, fields[:max(len(fields), 1)-1])
			}
			return lines, err
		}).WithTimeout(soon).Should(matcher)
	}

	BeforeAll(func(ctx SpecContext) {
		ns = newNamespace(ctx, restricted)
		sample, err := os.ReadFile("../../config/samples/database_v1alpha1_postgresql.yaml")
		Expect(err).NotTo(HaveOccurred())
		Expect(string(sample)).To(ContainSubstring(`version: "16"`))
		ns.apply(ctx, strings.Replace(string(sample), `version: "16"`, `version: "`+nearestVersion+`"`, 1))
		ns.run(ctx, "wait", "--for=condition=Ready", "postgresql/my-postgres", "--timeout=300s")
	})

	It("is listed by kubectl, and so is what belongs to it", func(ctx SpecContext) {
		table(ctx, HaveExactElements(
			HaveExactElements("NAME", "READY", "STATUS", "REASON", "PRIMARY", "INSTANCES", "READY-INSTANCES", "VERSION"),
			HaveExactElements("my-postgres", "True", "Running", "Ready", MatchRegexp("^my-postgres-[0-2]$"), "3", "3", HavePrefix(nearestVersion+".")),
		), "fpg")
		table(ctx, HaveLen(2), "postgresqls.database.fettle.dev")
		table(ctx, Equal([][]string{{"NAME", "READY"}, {"my-postgres", "3/3"}}), "statefulsets")
		table(ctx, ConsistOf(
			HaveExactElements("NAME", "TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORT(S)"),
			HaveExactElements("my-postgres", "ClusterIP", MatchRegexp(`^[0-9.]+$`), "<none>", "5432/TCP"),
			HaveExactElements("my-postgres-ro", "ClusterIP", MatchRegexp(`^[0-9.]+$`), "<none>", "5432/TCP"),
			HaveExactElements("my-postgres-pods", "ClusterIP", "None", "<none>", HavePrefix("5432/TCP")),
		), "services")
		ns.shows(ctx, MatchRegexp(`(?m)^data-my-postgres-2 +Bound +\S+ +1Gi +RWO `), "get", "pvc")
	})

	It("answers to psql, with the password of the Secret", func(ctx SpecContext) {
		Expect(ns.run(ctx, "exec", "my-postgres-0", "--", "psql", "-U", "postgres", "-c", "SELECT version();")).To(ContainSubstring("PostgreSQL " + nearestVersion))
		Expect(ns.run(ctx, "get", "secret", "my-postgres-credentials", "-o", "jsonpath={.data.POSTGRES_PASSWORD}")).NotTo(BeEmpty())
		ns.answers(ctx, "my-postgres-0", "my-postgres", "select current_database()", "myapp")
	})

	It("leaves only its data and passwords when it is deleted", func(ctx SpecContext) {
		ns.run(ctx, "delete", "postgresql", "my-postgres")
		Eventually(ctx, func(ctx context.Context) ([]string, error) {
			left, err := ns.try(ctx, "get", "statefulsets,pods,services,leases,pvc,secrets", "-l", "fettle.dev/owner-name=my-postgres", "-o", "name")
			return strings.Fields(left), err
		}).WithTimeout(later).Should(ConsistOf(
			"persistentvolumeclaim/data-my-postgres-0", "persistentvolumeclaim/data-my-postgres-1", "persistentvolumeclaim/data-my-postgres-2",
			"secret/my-postgres-credentials"))
	})
}
