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
		// A user other than root may listen on port 80 too.
		ns.run(ctx, "create", "configmap", "on-80",
			"--from-literal=default.conf=server { listen 80; location / { root /usr/share/nginx/html; index index.html; } }")
		ns.webApp(ctx, "low", "{image: '"+unprivileged+"', port: 80, volumes: [{name: conf, configMap: {name: on-80}}], "+
			"volumeMounts: [{name: conf, mountPath: /etc/nginx/conf.d}]}")
		for _, name := range []string{"high", "low"} {
			ns.ready(ctx, name)
			ns.serves(ctx, name, "nginx")
			ns.shows(ctx, HavePrefix("101"), "exec", "deployment/"+name, "--", "id", "-u")
		}
		Expect(ns.run(ctx, "get", "deployment", "low", "-o", "jsonpath={.spec.template.spec.securityContext.sysctls}")).To(
			ContainSubstring("net.ipv4.ip_unprivileged_port_start"))
	})
}

func metricsSpecs() {
	It("are available to authorized users only", func(ctx SpecContext) {
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
		insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // its certificate is self-signed
		get := func(token string, status int, text ...OmegaMatcher) {
			GinkgoHelper()
			Eventually(ctx, func(g Gomega) { // permissions take effect a moment after they were granted, and metrics follow the status
				got, body, err := fetch(ctx, insecure, "https://127.0.0.1:"+port+"/metrics", token)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(got).To(Equal(status))
				g.Expect(body).To(And(text...))
			}).WithTimeout(soon).Should(Succeed())
		}
		get("", http.StatusUnauthorized)
		get(ns.run(ctx, "create", "token", "stranger"), http.StatusForbidden)
		var all []OmegaMatcher
		for _, name := range []string{
			`webapp_reconcile_total{namespace="` + ns.name + `",result="success"}`,
			`webapp_reconcile_duration_seconds_bucket{namespace="` + ns.name + `",le="0.1"}`,
			`webapp_creation_duration_seconds_count{namespace="` + ns.name + `"} 1`,
			"controller_runtime_reconcile_total", "workqueue_depth",
		} {
			all = append(all, ContainSubstring(name))
		}
		get(ns.run(ctx, "create", "token", "reader"), http.StatusOK, all...)
	}, SpecTimeout(15*time.Minute))
}
