package e2e

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const badVote = `
apiVersion: voting.fettle.dev/v1alpha1
kind: VoteConfig
metadata: {name: bad-config}
spec:
  options:
  - {id: "1", label: "this label has more than fifty characters, which is too many", color: red}
`

func voteSpecs() {
	Describe("on the sample", Ordered, func() {
		var ns namespaced
		BeforeAll(func(ctx SpecContext) { ns = newNamespace(ctx, restricted) })

		It("publishes the options", func(ctx SpecContext) {
			Expect(ns.run(ctx, "api-resources")).To(MatchRegexp(`(?m)^voteconfigs +vc +voting\.fettle\.dev/v1alpha1 +true +VoteConfig`))
			Expect(ns.run(ctx, "apply", "-f", "../../config/samples/voting_v1alpha1_voteconfig.yaml")).To(ContainSubstring("voteconfig.voting.fettle.dev/cats-vs-dogs created"))
			ns.run(ctx, "wait", "--for=condition=Ready", "vc/cats-vs-dogs", "--timeout=300s")
			Expect(ns.run(ctx, "get", "configmap", "cats-vs-dogs-config", "-o", `jsonpath={.data.options\.txt}`)).To(Equal("a:Cats:#FF6B6B\nb:Dogs:#4ECDC4\n"))
			Expect(ns.run(ctx, "get", "vc", "cats-vs-dogs", "-o", "jsonpath={.metadata.finalizers}")).To(BeEmpty())
			status := ns.run(ctx, "get", "vc", "cats-vs-dogs", "-o", "jsonpath={.status}")
			Expect(status).To(And(ContainSubstring(`"configMapName":"cats-vs-dogs-config"`), ContainSubstring(`"lastUpdated":"20`)))
		})

		It("shows them in a table", func(ctx SpecContext) {
			ns.shows(ctx, MatchRegexp(`^NAME +READY +STATUS +REASON +OPTIONS +CONFIGMAP +AGE *\ncats-vs-dogs +True +Running +Ready +Cats,Dogs +cats-vs-dogs-config +\S+ *\n$`), "get", "vc")
			ns.shows(ctx, MatchRegexp(`(?m)^NAME .* UPDATED +MESSAGE`), "get", "vc", "-o", "wide")
		})

		It("shows every option on the pages of an application, and new options after a change", func(ctx SpecContext) {
			ns.apply(ctx, voteApp("cats-vs-dogs-config"))
			Eventually(ctx, func() (string, error) { return ns.page(ctx, "vote") }).WithTimeout(later).Should(And(
				ContainSubstring("Cats vs Dogs!"), ContainSubstring(">Cats</button>"), ContainSubstring(">Dogs</button>"), ContainSubstring("border-color: #FF6B6B")))
			start := time.Now()
			ns.run(ctx, "patch", "vc", "cats-vs-dogs", "--type=merge", "-p",
				`{"spec":{"title":"Pets","options":[{"id":"a","label":"Cats"},{"id":"b","label":"Dogs"},{"id":"c","label":"Birds: & more","color":"#00FF00"}]}}`)
			Eventually(ctx, func() (string, error) { return ns.page(ctx, "vote") }).WithTimeout(later).Should(And(
				ContainSubstring("<h1>Pets</h1>"), ContainSubstring(">Birds: &amp; more</button>")))
			report(fmt.Sprintf("a third option was on the page %.1f s after the change", time.Since(start).Seconds()))
			ns.becomesReady(ctx, voteConfigKind, "cats-vs-dogs")
			Expect(ns.rollouts(ctx)).To(Equal(map[string]int{"vote": 2}))
			Eventually(ctx, func() (string, error) { return ns.vote(ctx, "vote", "c") }).WithTimeout(soon).Should( // a request may still reach the previous pod
				ContainSubstring(`value="c" aria-pressed="true"`))
			Expect(ns.run(ctx, "get", "vc", "cats-vs-dogs", "-o", "jsonpath={.status.dependents[*].state}")).To(Equal("UpToDate"))
		})

		It("logs its operations", func(ctx SpecContext) {
			for _, operation := range []string{"created", "updated"} { // by the leader at that time
				namespaced{operatorNamespace}.shows(ctx, MatchRegexp(`ConfigMap reconciled.*`+ns.name+`.*"operation": ?"`+operation+`"`),
					"logs", "-l", "app.kubernetes.io/component=manager", "--tail=-1")
			}
		})

		It("rejects an invalid object, with all errors at once", func(ctx SpecContext) {
			_, err := ns.kubectlStdin(ctx, badVote, "apply", "-f", "-")
			Expect(err).To(MatchError(And(ContainSubstring("spec.options[0].color"), ContainSubstring("spec.options[0].id"),
				ContainSubstring("spec.options[0].label"), ContainSubstring("should have at least 2 items"))))
		})

		It("reverts changes by other clients", func(ctx SpecContext) {
			ns.run(ctx, "patch", "configmap", "cats-vs-dogs-config", "--type=merge", "-p", `{"data":{"OPTION_A":"wrong"}}`)
			Eventually(ctx, ns.data("cats-vs-dogs-config")).WithTimeout(soon).Should(HaveKeyWithValue("OPTION_A", "Cats"))
			ns.run(ctx, "delete", "configmap", "cats-vs-dogs-config")
			Eventually(ctx, ns.data("cats-vs-dogs-config")).WithTimeout(soon).Should(HaveKeyWithValue("OPTION_C", "Birds: & more"))
		})

		It("deletes the ConfigMap with it, and restarts nothing", func(ctx SpecContext) {
			before := ns.rolledOut(ctx, "cats-vs-dogs") // the reverted change may have restarted workloads that might have read it
			ns.run(ctx, "delete", "vc", "cats-vs-dogs", "--timeout=300s")
			ns.run(ctx, "wait", "--for=delete", "configmap/cats-vs-dogs-config", "--timeout=300s")
			Expect(ns.run(ctx, "get", "deployment", "vote", "-o", "jsonpath={.metadata.annotations}")).NotTo(ContainSubstring("voting.fettle.dev"))
			Expect(ns.rollouts(ctx)).To(Equal(before))
		})
	})
}

// rolledOut waits until a VoteConfig has been Ready for longer than a restart may be delayed silently, without any rollout. It returns the
// counts of rollouts.
func (n namespaced) rolledOut(ctx context.Context, name string) (seen map[string]int) {
	GinkgoHelper()
	since := time.Now()
	Eventually(ctx, func(ctx context.Context) (time.Duration, error) {
		state, err := n.state(voteConfigKind, name, "Ready")(ctx)
		if err != nil {
			return 0, err
		}
		now, err := n.rollouts(ctx)
		if !strings.HasPrefix(state, "True ") || !maps.Equal(now, seen) {
			seen, since = now, time.Now()
		}
		return time.Since(since), err
	}).WithTimeout(later).Should(BeNumerically(">", 10*time.Second))
	return seen
}

// voteApp is a Deployment and a Service of the vote application, which takes its options from a ConfigMap.
func voteApp(configMap string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: vote}
spec:
  selector: {app: vote}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: vote}
spec:
  selector: {matchLabels: {app: vote}}
  template:
    metadata: {labels: {app: vote}}
    spec:
      automountServiceAccountToken: false
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: vote
        image: %[1]s
        imagePullPolicy: Always
        envFrom: [{configMapRef: {name: %[2]s}}]
        ports: [{containerPort: 8080}]
        readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}
        resources: {requests: {cpu: 1m, memory: 16Mi}}
        securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
        volumeMounts: [{name: options, mountPath: /etc/vote}]
      volumes: [{name: options, configMap: {name: %[2]s}}]
`, voteImage(), configMap)
}

// vote votes through the Service of an application, and returns the response page.
func (n namespaced) vote(ctx context.Context, service, option string) (string, error) {
	base, stop, err := n.reach(ctx, service)
	if err != nil {
		return "", err
	}
	defer stop()
	body := strings.NewReader(url.Values{"vote": {option}}.Encode())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, base, body)
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close() // only read
	page, err := io.ReadAll(response.Body)
	return string(page), err
}
