package controllers_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var _ = Describe("The NetworkPolicy of a PostgreSQL", func() {
	It("is there unless the spec says otherwise, admits the operator, and changes no pod", func(ctx context.Context) {
		namespace, _ := newDatabases(ctx)
		pg := newPostgreSQL(namespace, "walled", instances(1))
		createDatabase(ctx, pg)
		policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "walled"}}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "walled-0"}}
		Expect(read(ctx, pod)).To(Succeed())
		uid := pod.UID
		Expect(read(ctx, policy)).To(Succeed())
		Expect(policy.Spec.Ingress[1].From).To(ContainElement(networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{corev1.LabelMetadataName: operatorNamespace},
		}}))

		By("naming the clients")
		patch(ctx, pg, `{"spec":{"networkPolicy":{"from":[{"podSelector":{"matchLabels":{"app":"web"}}}]}}}`)
		// Besides the clients: the instances, and the pods of backups.
		Eventually(field(policy, func(p *networkingv1.NetworkPolicy) int { return len(p.Spec.Ingress[0].From) })).WithContext(ctx).Should(Equal(3))

		By("turning it off")
		patch(ctx, pg, `{"spec":{"networkPolicy":{"enabled":false,"from":null}}}`)
		Eventually(func(ctx context.Context) bool { return apierrors.IsNotFound(read(ctx, policy)) }).WithContext(ctx).Should(BeTrue())
		settle(ctx)
		Expect(read(ctx, pod)).To(Succeed())
		Expect(pod.UID).To(Equal(uid))
	})
})
