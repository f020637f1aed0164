package e2e

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// postgresVersionSpecs run the versions besides postgresVersion whose images can be had here, and the layout of Alpine's image: another
// user, other folders, and no program of GNU's.
func postgresVersionSpecs() {
	var ns namespaced
	variants := []struct{ name, version, image, user string }{
		{"thirteen", "13", "docker.io/library/postgres:13", "999"},
		{"seventeen", "17", "docker.io/library/postgres:17", "999"},
		{"alpine", "17", "docker.io/library/postgres:17-alpine", "70"},
	}
	BeforeAll(func(ctx SpecContext) {
		ns = newNamespace(ctx, map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
		for _, v := range variants {
			ns.apply(ctx, fmt.Sprintf(
				"apiVersion: database.fettle.dev/v1alpha1\nkind: PostgreSQL\nmetadata: {name: %s}\nspec: {version: %q, image: %q, storage: 256Mi, deletionPolicy: Delete}\n",
				v.name, v.version, v.image))
		}
	})
	for _, v := range variants {
		It("runs "+v.image+", restricted, and answers to its owner", func(ctx SpecContext) {
			pg := ns.databaseReady(ctx, v.name)
			Expect(pg.Status.CurrentVersion).To(HavePrefix(v.version + "."))
			pod := v.name + "-0"
			ns.answers(ctx, pod, v.name, "create table if not exists t(a int primary key); insert into t values (1) on conflict do nothing; "+
				"select current_setting('server_version_num')::int / 10000, count(*) from t", v.version+"|1")
			Expect(strings.TrimSpace(ns.run(ctx, "exec", pod, "--", "id", "-u"))).To(Equal(v.user))
		})
	}
	It("leaves nothing behind when they are deleted with their data", func(ctx SpecContext) {
		ns.run(ctx, "delete", "postgresql", "--all")
		Eventually(ctx, func(ctx context.Context) (string, error) {
			return ns.try(ctx, "get", "statefulsets,pods,services,persistentvolumeclaims,leases,secrets", "-l", "fettle.dev/owner-kind=PostgreSQL", "-o", "name")
		}).WithTimeout(later).Should(BeEmpty())
	})
}
