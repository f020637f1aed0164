package controllers_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-dev/fettle/config/admission"
)

// withToken is a client with a token that the API server made for a ServiceAccount.
func withToken(ctx context.Context, namespace, account string) client.Client {
	GinkgoHelper()
	token := &authenticationv1.TokenRequest{}
	Expect(user.SubResource("token").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}, token)).To(Succeed())
	cfg := rest.AnonymousClientConfig(env.Admin)
	cfg.BearerToken = token.Status.Token
	c, err := client.New(cfg, client.Options{Scheme: newScheme()})
	Expect(err).NotTo(HaveOccurred())
	return c
}

// confineAgents has the API server enforce the policies as they are shipped, until the spec ends.
func confineAgents(ctx context.Context) {
	GinkgoHelper()
	objects, err := admission.Objects()
	Expect(err).NotTo(HaveOccurred())
	for _, o := range objects {
		Expect(user.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("test"))).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(user.Delete(ctx, o))).To(Succeed()) })
	}
}

var _ = Describe("The token of an agent", func() {
	change := func(ctx context.Context, c client.Client, pod *corev1.Pod, kind types.PatchType, body string) error {
		return c.Patch(ctx, pod.DeepCopy(), client.RawPatch(kind, []byte(body)))
	}
	// inForce waits until the policy is. Each try asks for something else: what an earlier one has changed is no change any more.
	inForce := func(ctx context.Context, agent client.Client, pod *corev1.Pod) {
		GinkgoHelper()
		tries := 0
		Eventually(func(ctx context.Context) error {
			tries++
			return change(ctx, agent, pod, types.MergePatchType, fmt.Sprintf(`{"metadata":{"labels":{"try":"%d"}}}`, tries))
		}).WithContext(ctx).Should(MatchError(ContainSubstring("fettle-agents")), "the policy is in force")
	}
	merge, strategic := types.MergePatchType, types.StrategicMergePatchType

	It("changes nothing but the role of its own pods", func(ctx context.Context) {
		confineAgents(ctx)
		namespace, _ := newDatabases(ctx)
		createDatabase(ctx, newPostgreSQL(namespace, "vic", instances(1)))
		agent := withToken(ctx, namespace, "vic")
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "vic-0"}}

		refused := map[string]struct {
			kind types.PatchType
			body string
		}{
			"a label":                  {merge, `{"metadata":{"labels":{"app":"payments"}}}`},
			"a new label":              {merge, `{"metadata":{"labels":{"other":"x"}}}`},
			"its owner":                {merge, `{"metadata":{"labels":{"fettle.dev/owner-name":"shop","fettle.dev/role":"primary"}}}`},
			"no label":                 {merge, `{"metadata":{"labels":{"fettle.dev/owner-kind":null}}}`},
			"no labels at all":         {merge, `{"metadata":{"labels":null}}`},
			"the image":                {strategic, `{"spec":{"containers":[{"name":"postgres","image":"evil.example/x:1"}]}}`},
			"the image, with the role": {strategic, `{"metadata":{"labels":{"fettle.dev/role":"replica"}},"spec":{"containers":[{"name":"postgres","image":"evil.example/x:1"}]}}`},
			"its end":                  {merge, `{"spec":{"activeDeadlineSeconds":1}}`},
			"tolerations":              {types.JSONPatchType, `[{"op":"add","path":"/spec/tolerations/-","value":{"operator":"Exists"}}]`},
			"annotations":              {merge, `{"metadata":{"annotations":{"kubectl.kubernetes.io/default-container":"x"}}}`},
			"finalizers":               {merge, `{"metadata":{"finalizers":["example.com/stay"]}}`},
			"owners":                   {merge, `{"metadata":{"ownerReferences":null}}`},
		}
		inForce(ctx, agent, pod)
		for what, c := range refused {
			err := change(ctx, agent, pod, c.kind, c.body)
			Expect(err).To(MatchError(ContainSubstring("an agent of a PostgreSQL may change")), what)
		}
		ephemeral := `{"spec":{"ephemeralContainers":[{"name":"x","image":"evil.example/x:1"}]}}`
		err := agent.SubResource("ephemeralcontainers").Patch(ctx, pod.DeepCopy(), client.RawPatch(strategic, []byte(ephemeral)))
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		Expect(apierrors.IsForbidden(agent.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "vic-ca"}, &corev1.Secret{}))).To(BeTrue())

		for _, role := range []string{`"replica"`, "null", `"primary"`} {
			Expect(change(ctx, agent, pod, merge, `{"metadata":{"labels":{"fettle.dev/role":`+role+`}}}`)).To(Succeed(), role)
		}
	})

	It("is all that the policy is about", func(ctx context.Context) {
		confineAgents(ctx)
		namespace, _ := newDatabases(ctx)
		createDatabase(ctx, newPostgreSQL(namespace, "vic", instances(1)))
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "vic-0"}}
		agent := withToken(ctx, namespace, "vic")
		inForce(ctx, agent, pod)

		By("letting users change the pod")
		Expect(change(ctx, user, pod, merge, `{"metadata":{"labels":{"team":"a"},"annotations":{"a":"b"}}}`)).To(Succeed())

		By("letting another program change pods that are named after its ServiceAccount")
		rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "patch"}}}
		meta := metav1.ObjectMeta{Namespace: namespace, Name: "patroni"}
		for _, o := range []client.Object{
			&corev1.ServiceAccount{ObjectMeta: meta}, &rbacv1.Role{ObjectMeta: meta, Rules: rules},
			&rbacv1.RoleBinding{
				ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "patroni"},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "patroni"}},
			},
			&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "patroni-0"},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "db", Image: "example.com/db:1"}}},
			},
		} {
			Expect(user.Create(ctx, o)).To(Succeed())
		}
		other, own := withToken(ctx, namespace, "patroni"), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "patroni-0"}}
		Eventually(func(ctx context.Context) error {
			return change(ctx, other, own, strategic, `{"metadata":{"annotations":{"status":"leader"}},"spec":{"containers":[{"name":"db","image":"example.com/db:2"}]}}`)
		}).WithContext(ctx).Should(Succeed(), "once the authorizer knows of the Role")
	})
})
