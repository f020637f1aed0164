package controllers_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	k8sappsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	votingv1alpha1 "github.com/fettle-dev/fettle/api/voting/v1alpha1"
)

// policyText is the message of the admission policies of deny.
const policyText = "the policy of this cluster forbids it"

// rule matches operations on the resources of a group, of those names where any are given.
func rule(group, resource string, operation admissionv1.OperationType, names ...string) admissionv1.NamedRuleWithOperations {
	return admissionv1.NamedRuleWithOperations{ResourceNames: names, RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{operation},
		Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}},
	}}
}

// deny has a ValidatingAdmissionPolicy deny what rule matches, in one namespace or of the cluster, until it is lifted.
func deny(ctx context.Context, namespace string, rule admissionv1.NamedRuleWithOperations) (lift func(context.Context)) {
	GinkgoHelper()
	name := "deny-" + namespace
	objects := []client.Object{
		&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}},
				ResourceRules:     []admissionv1.NamedRuleWithOperations{rule},
			},
			Validations: []admissionv1.Validation{{Expression: "false", Message: policyText}},
		}},
		&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		}},
	}
	for _, obj := range objects {
		Expect(user.Create(ctx, obj)).To(Succeed())
	}
	return func(ctx context.Context) {
		for _, obj := range objects {
			Expect(client.IgnoreNotFound(user.Delete(ctx, obj))).To(Succeed())
		}
	}
}

var _ = Describe("A child that a policy of the cluster denies", func() {
	type denied struct {
		// group, resource and probe say what is denied: probe is one such object.
		group, resource string
		probe           func(namespace string) client.Object
		// object is whose child that is, ready the status and reason of its condition Ready.
		object func(namespace string) client.Object
		ready  func(context.Context, client.Object) string
	}
	DescribeTable("is created once the policy is lifted, without a touch", func(ctx context.Context, kind denied) {
		namespace, err := env.NewNamespace(ctx, "denied")
		Expect(err).NotTo(HaveOccurred())
		lift := deny(ctx, namespace, rule(kind.group, kind.resource, admissionv1.Create))
		DeferCleanup(lift)
		allowed := func(ctx context.Context) error { return user.Create(ctx, kind.probe(namespace), client.DryRunAll) }
		Eventually(allowed).WithContext(ctx).Should(MatchError(ContainSubstring(policyText)))

		startDatabases(ctx, namespace)
		object := kind.object(namespace)
		Expect(user.Create(ctx, object)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(user.Delete(ctx, object)).To(Succeed()) })
		Eventually(kind.ready).WithContext(ctx).WithArguments(object).Should(Equal("False Invalid"))
		lift(ctx)
		Eventually(kind.ready).WithContext(ctx).WithArguments(object).Should(Equal("True Ready"))
	},
		Entry("of a WebApp", denied{
			group: "apps", resource: "deployments",
			probe:  func(namespace string) client.Object { return consumer(namespace, "probe", "x") },
			object: func(namespace string) client.Object { return newApp(namespace, "web") },
			ready:  func(ctx context.Context, o client.Object) string { return ready(ctx, o.(*appsv1.WebApp)) },
		}),
		Entry("of an AppConfig", denied{
			resource: "configmaps",
			probe:    func(namespace string) client.Object { return mapNamed(namespace, "probe") },
			object:   func(namespace string) client.Object { return newConfig(namespace, "shop") },
			ready: func(ctx context.Context, o client.Object) string {
				return configReady(ctx, o.(*configv1.AppConfig))
			},
		}),
		Entry("of a VoteConfig", denied{
			resource: "configmaps",
			probe:    func(namespace string) client.Object { return mapNamed(namespace, "probe") },
			object:   func(namespace string) client.Object { return newVote(namespace, "vote", "Cats", "Dogs") },
			ready: func(ctx context.Context, o client.Object) string {
				return voteReady(ctx, o.(*votingv1alpha1.VoteConfig))
			},
		}),
		Entry("of a PostgreSQL", denied{
			group: "apps", resource: "statefulsets",
			probe: func(namespace string) client.Object {
				d := consumer(namespace, "probe", "x")
				return &k8sappsv1.StatefulSet{ObjectMeta: d.ObjectMeta, Spec: k8sappsv1.StatefulSetSpec{Selector: d.Spec.Selector, Template: d.Spec.Template}}
			},
			object: func(namespace string) client.Object { return newPostgreSQL(namespace, "db") },
			ready: func(ctx context.Context, o client.Object) string {
				return pgReady(ctx, o.(*databasev1alpha1.PostgreSQL))
			},
		}),
	)

	It("applies to the status of a WebAppPolicy too", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		callWebhook(ctx)
		lift := deny(ctx, namespace, rule("apps.fettle.dev", "webapppolicies/status", admissionv1.Update, "policy-"+namespace))
		DeferCleanup(lift)
		p := newPolicy(ctx, namespace)
		Eventually(func(ctx context.Context) error {
			return user.Status().Patch(ctx, p, client.RawPatch(types.MergePatchType, []byte(`{"status":{"observedGeneration":1}}`)), client.DryRunAll)
		}).WithContext(ctx).Should(Satisfy(apierrors.IsInvalid))
		labelNamespace(ctx, namespace, namespace) // something to say
		lift(ctx)
		Eventually(policyStatus).WithContext(ctx).WithArguments(p).Should(HaveSuffix("Enforced 0")) // or not, without a webhook configuration
	})
})
