package controllers_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/test/audit"
)

// newPolicy makes a policy of at most one pod for the namespaces whose label policy has the name of one.
func newPolicy(ctx context.Context, namespace string) *appsv1.WebAppPolicy {
	GinkgoHelper()
	p := &appsv1.WebAppPolicy{ObjectMeta: metav1.ObjectMeta{Name: "policy-" + namespace}, Spec: appsv1.WebAppPolicySpec{
		NamespaceSelector: metav1.LabelSelector{MatchLabels: map[string]string{"policy": namespace}},
		MaxReplicas:       new(int32(1)), Action: appsv1.ActionEnforce,
	}}
	Expect(user.Create(ctx, p)).To(Succeed())
	DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(user.Delete(ctx, p))).To(Succeed()) })
	return p
}

// policyStatus is the reason of Ready, the number of violations and the first of them; "old" while the status speaks of an older generation.
func policyStatus(ctx context.Context, p *appsv1.WebAppPolicy) string {
	if err := read(ctx, p); err != nil {
		return err.Error()
	}
	c := meta.FindStatusCondition(p.Status.Conditions, fettlev1.Ready)
	if c == nil || p.Status.ObservedGeneration != p.Generation || c.ObservedGeneration != p.Generation {
		return "old"
	}
	first := ""
	if len(p.Status.Violations) > 0 {
		first = " " + p.Status.Violations[0]
	}
	return fmt.Sprintf("%s %d%s", c.Reason, p.Status.ViolationCount, first)
}

func labelNamespace(ctx context.Context, name, value string) {
	GinkgoHelper()
	patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, `{"metadata":{"labels":{"policy":%q}}}`, value)
}

// callWebhook is the configuration by which policies are enforced, until the spec ends. It has no rules, so that nothing is called.
func callWebhook(ctx context.Context) *admissionv1.ValidatingWebhookConfiguration {
	GinkgoHelper()
	configuration := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "webapps-"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "webapps.apps.fettle.dev", ClientConfig: admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")},
			SideEffects: new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		}},
	}
	Expect(user.Create(ctx, configuration)).To(Succeed())
	DeferCleanup(func(ctx context.Context) {
		Expect(client.IgnoreNotFound(user.Delete(ctx, configuration))).To(Succeed())
	})
	return configuration
}

var _ = Describe("The status of a WebAppPolicy", func() {
	var namespace string
	var configuration *admissionv1.ValidatingWebhookConfiguration
	BeforeEach(func(ctx context.Context) {
		configuration = callWebhook(ctx)
		namespace = newNamespace(ctx)
		labelNamespace(ctx, namespace, namespace)
	})

	It("follows WebApps, namespaces and the policy itself", func(ctx context.Context) {
		app := newApp(namespace, "web")
		Expect(user.Create(ctx, app)).To(Succeed())
		p := newPolicy(ctx, namespace)
		broken := "Enforced 1 " + namespace + "/web: maxReplicas"
		Eventually(policyStatus).WithContext(ctx).WithArguments(p).Should(Equal(broken))

		By("fixing the WebApp")
		change(ctx, app, func(s *appsv1.WebAppSpec) { s.Replicas = new(int32(1)) })
		Eventually(policyStatus).WithContext(ctx).WithArguments(p).Should(Equal("Enforced 0"))

		By("changing the policy")
		patch(ctx, p, `{"spec":{"maxReplicas":0,"action":"Warn"}}`)
		Eventually(policyStatus).WithContext(ctx).WithArguments(p).Should(Equal("Warning 1 " + namespace + "/web: maxReplicas"))

		By("taking the namespace out of it, and back")
		labelNamespace(ctx, namespace, "none")
		Eventually(policyStatus).WithContext(ctx).WithArguments(p).Should(Equal("Warning 0"))
		Expect(meta.FindStatusCondition(p.Status.Conditions, fettlev1.Ready).Message).To(ContainSubstring("no namespace matches"))
		labelNamespace(ctx, namespace, namespace)
		Eventually(policyStatus).WithContext(ctx).WithArguments(p).Should(Equal("Warning 1 " + namespace + "/web: maxReplicas"))

		By("deleting the WebApp")
		Expect(user.Delete(ctx, app)).To(Succeed())
		Eventually(policyStatus).WithContext(ctx).WithArguments(p).Should(Equal("Warning 0"))
	})

	It("reports an invalid selector that no webhook rejected", func(ctx context.Context) {
		Expect(user.Create(ctx, newApp(namespace, "web"))).To(Succeed())
		p := newPolicy(ctx, namespace)
		Eventually(policyStatus).WithContext(ctx).WithArguments(p).Should(HavePrefix("Enforced 1"))
		patch(ctx, p, `{"spec":{"namespaceSelector":{"matchExpressions":[{"key":"policy","operator":"Near"}]}}}`)
		Eventually(policyStatus).WithContext(ctx).WithArguments(p).Should(HavePrefix("SelectorInvalid ")) // in all namespaces
		c := meta.FindStatusCondition(p.Status.Conditions, fettlev1.Ready)
		Expect(c.Status).To(Equal(metav1.ConditionFalse))
		Expect(c.Message).To(And(ContainSubstring("spec.namespaceSelector"), ContainSubstring("Near"), ContainSubstring("correct it")))
		patch(ctx, p, `{"spec":{"namespaceSelector":{"matchExpressions":null}}}`)
		Eventually(policyStatus).WithContext(ctx).WithArguments(p).Should(HavePrefix("Enforced 1"))

		events := &eventsv1.EventList{}
		Eventually(func(ctx context.Context) []string {
			Expect(user.List(ctx, events)).To(Succeed())
			var reasons []string
			for i := range events.Items {
				if e := &events.Items[i]; e.Regarding.Kind == "WebAppPolicy" && e.Regarding.Name == p.Name {
					reasons = append(reasons, e.Type+" "+e.Reason)
				}
			}
			return reasons
		}).WithContext(ctx).Should(ConsistOf("Normal Enforced", "Warning SelectorInvalid", "Normal Enforced"))
	})

	It("is not Enforced without a configuration that calls the webhook", func(ctx context.Context) {
		p := newPolicy(ctx, namespace)
		Eventually(policyStatus).WithContext(ctx).WithArguments(p).Should(Equal("Enforced 0"))
		Expect(user.Delete(ctx, configuration)).To(Succeed())
		Eventually(policyStatus).WithContext(ctx).WithArguments(p).Should(Equal("NotEnforced 0"))
	})

	It("is not written for every WebApp of many, and not at all when nothing changes", func(ctx context.Context) {
		p := newPolicy(ctx, namespace)
		Eventually(policyStatus).WithContext(ctx).WithArguments(p).Should(Equal("Enforced 0"))
		writes := func(from requestCounts) audit.Summary {
			return from.summary(ctx).Where(func(k audit.Key) bool {
				return k.Resource == "webapppolicies.apps.fettle.dev" && k.Class == audit.Write
			})
		}
		const many = 60
		start, created := time.Now(), countRequests(ctx, "")
		for i := range many {
			Expect(user.Create(ctx, newApp(namespace, fmt.Sprintf("web-%02d", i), func(s *appsv1.WebAppSpec) { s.Paused = true }))).To(Succeed())
		}
		Eventually(policyStatus).WithContext(ctx).WithArguments(p).Should(HavePrefix(fmt.Sprintf("Enforced %d ", many)))
		Expect(p.Status.Violations).To(HaveLen(20))
		atMost := int(time.Since(start)/time.Second) + 2
		Expect(writes(created).Writes()).To(And(BeNumerically(">=", 1), BeNumerically("<=", atMost)), writes(created).String())

		idle := countRequests(ctx, "")
		app := newApp(namespace, "web-00")
		change(ctx, app, func(s *appsv1.WebAppSpec) { s.Replicas = new(int32(4)) }) // breaks the same rule
		time.Sleep(still + time.Second)
		Expect(writes(idle).Writes()).To(BeZero(), writes(idle).String())
	})

	It("repairs a status that another client wrote", func(ctx context.Context) {
		p := newPolicy(ctx, namespace)
		Eventually(policyStatus).WithContext(ctx).WithArguments(p).Should(Equal("Enforced 0"))
		before := p.DeepCopy()
		p.Status.ViolationCount = 7
		Expect(user.Status().Patch(ctx, p, client.MergeFrom(before))).To(Succeed())
		Eventually(policyStatus).WithContext(ctx).WithArguments(p).Should(Equal("Enforced 0"))
	})
})
