package e2e

import (
	"crypto/tls"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const unprivileged = "nginxinc/nginx-unprivileged:1.27"

func securitySpecs() {
	It("runs WebApps in a namespace that enforces Pod Security restricted", func(ctx SpecContext) {
		ns := newNamespace(ctx, restricted)
		ns.webApp(ctx, "high", "{image: '"+unprivileged+"', port: 8080}")
		// Whoever isn't root may listen on port 80 too.
		ns.run(ctx, "create", "configmap", "on-80",
			"--from-literal=default.conf=server { listen 80; location / { root /usr/share/nginx/html; index index.html; } }")
		ns.webApp(ctx, "low", "{image: '"+unprivileged+"', port: 80, volumes: [{name: conf, configMap: {name: on-80}}], "+
			"volumeMounts: [{name: conf, mountPath: /etc/nginx/conf.d}]}")
		for _, name := range []string{"high", "low"} {
			ns.ready(ctx, name)
			Eventually(ctx, func() (string, error) { return ns.page(ctx, name) }).WithTimeout(soon).Should(ContainSubstring("nginx"))
			Expect(ns.run(ctx, "exec", "deployment/"+name, "--", "id", "-u")).To(HavePrefix("101"))
		}
		Expect(ns.run(ctx, "get", "deployment", "low", "-o", "jsonpath={.spec.template.spec.securityContext.sysctls}")).To(
			ContainSubstring("net.ipv4.ip_unprivileged_port_start"))
	})
}

func metricsSpecs() {
	It("are given to those who may read them, and to nobody else", func(ctx SpecContext) {
		ns := newNamespace(ctx, nil)
		ns.webApp(ctx, "counted", "{image: 'nginx:1.25'}")
		ns.ready(ctx, "counted")
		for _, name := range []string{"reader", "stranger"} {
			ns.run(ctx, "create", "serviceaccount", name)
		}
		binding := ns.name + "-metrics"
		ns.run(ctx, "create", "clusterrolebinding", binding, "--clusterrole=fettle-metrics-reader", "--serviceaccount="+ns.name+":reader")
		DeferCleanup(func(ctx SpecContext) { ns.run(ctx, "delete", "clusterrolebinding", binding) })

		port, stop, err := namespaced{operatorNamespace}.forward(ctx, "pod/"+leaderPod(ctx), "8443")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(stop)
		insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // its certificate is its own
		get := func(token string) (int, string) {
			GinkgoHelper()
			status, body, err := fetch(ctx, insecure, "https://127.0.0.1:"+port+"/metrics", token)
			Expect(err).NotTo(HaveOccurred())
			return status, body
		}
		status, _ := get("")
		Expect(status).To(Equal(http.StatusUnauthorized))
		status, _ = get(ns.run(ctx, "create", "token", "stranger"))
		Expect(status).To(Equal(http.StatusForbidden))
		status, body := get(ns.run(ctx, "create", "token", "reader"))
		Expect(status).To(Equal(http.StatusOK))
		for _, name := range []string{
			`webapp_reconcile_total{namespace="` + ns.name + `",result="success"}`,
			`webapp_reconcile_duration_seconds_bucket{namespace="` + ns.name + `",le="0.1"}`,
			`webapp_creation_duration_seconds_count{namespace="` + ns.name + `"} 1`,
			"controller_runtime_reconcile_total", "workqueue_depth",
		} {
			Expect(body).To(ContainSubstring(name))
		}
	}, SpecTimeout(5*time.Minute))
}
