package controllers_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
)

var _ = Describe("20 WebApps that are Ready", func() {
	It("cost nothing while idle, when touched, and after a restart", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		Expect(user.Create(ctx, configMap(namespace, "a"))).To(Succeed())
		Expect(user.Create(ctx, secret(namespace, "b"))).To(Succeed())
		requests := countRequests(ctx, namespace)
		var apps []*appsv1.WebApp
		children := 0
		for i := range 20 {
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
		Expect(float64(created.Writes())).To(BeNumerically("<=", 1.1*float64(children+len(apps))), created.String())

		By("doing nothing")
		everywhere := countRequests(ctx, "")
		settle(ctx)
		everywhere.expectIdle(ctx)

		By("touching each")
		everywhere = countRequests(ctx, "")
		for _, app := range apps {
			touch(ctx, app, "1")
		}
		settle(ctx)
		everywhere.expectIdle(ctx)

		By("restarting the operator")
		everywhere = countRequests(ctx, "")
		runningOperator.restart()
		settle(ctx)
		everywhere.expectIdle(ctx)

		By("touching each again")
		for _, app := range apps {
			touch(ctx, app, "2")
		}
		settle(ctx)
		everywhere.expectIdle(ctx)
	})
})
