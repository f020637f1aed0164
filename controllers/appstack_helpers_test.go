package controllers_test

import (
	"context"
	"encoding/json"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
)

// expectConnected checks that the backend gets all connections by reference.
func expectConnected(ctx context.Context, s *platformv1.AppStack, backend *appsv1.WebApp) {
	GinkgoHelper()
	d := deploymentOf(backend)
	Expect(read(ctx, d)).To(Succeed())
	app := d.Spec.Template.Spec.Containers[0]
	variables := map[string]string{}
	for _, e := range app.Env {
		if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
			variables[e.Name] = e.ValueFrom.SecretKeyRef.Name + "/" + e.ValueFrom.SecretKeyRef.Key
		}
	}
	Expect(variables).To(Equal(map[string]string{"DATABASE_URL": "database/uri", "REDIS_URL": s.Name + "-cache-credentials/uri"}))
	Expect(app.EnvFrom).To(HaveLen(2))
	Expect(app.EnvFrom[0].ConfigMapRef.Name).To(Equal(s.Name + "-config-config"))
	raw, err := json.Marshal(d.Spec)
	Expect(err).NotTo(HaveOccurred())
	Expect(string(raw)).NotTo(ContainSubstring("canary-external"))
	Expect(d.Spec.Template.Labels).To(HaveKeyWithValue("app.kubernetes.io/part-of", s.Name))
}

// expectStackWrites wants one write for each object of an AppStack, one for its finalizer, and few for its status.
func expectStackWrites(ctx context.Context, requests requestCounts) {
	GinkgoHelper()
	summary := requests.summary(ctx)
	text := summary.String()
	Expect(to(summary, "appstacks.platform.fettle.dev", "").LiveReads()).To(Equal(2), text) // two WebApps come after the first status: see internal/apply, isGone
	Expect(summary.LiveReads()).To(Equal(2+2), text)                                        // the pods run the contents of two Secrets
	for resource, want := range map[string]int{
		"webapps.apps.fettle.dev": 2, "appconfigs.config.fettle.dev": 1, "statefulsets.apps": 1, "secrets": 1, "services": 3, "appstacks.platform.fettle.dev": 1,
	} {
		Expect(to(summary, resource, "").Writes()).To(Equal(want), "%s: %s", resource, text)
	}
	Expect(to(summary, "appstacks.platform.fettle.dev", "status").Writes()).To(BeNumerically("<=", 6), text)
}
