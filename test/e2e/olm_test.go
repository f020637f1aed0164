package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	k8sappsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var (
	operatorKey    = client.ObjectKey{Namespace: operatorNamespace, Name: operatorName}
	operatorLabels = client.MatchingLabels{"app.kubernetes.io/name": "fettle", "app.kubernetes.io/component": "manager"}
	restricted     = map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
)

func olmSpecs() {
	It("has a Subscription whose CSV has succeeded and whose InstallPlan is complete", func(ctx SpecContext) {
		Eventually(ctx, func(g Gomega) { // OLM writes them after the CSV
			subscription, plan := &operatorsv1alpha1.Subscription{}, &operatorsv1alpha1.InstallPlan{}
			g.Expect(k8s.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: subscriptionName}, subscription)).To(Succeed())
			g.Expect(subscription.Status.State).To(Equal(operatorsv1alpha1.SubscriptionState(operatorsv1alpha1.SubscriptionStateAtLatest)))
			g.Expect(subscription.Status.InstallPlanRef).NotTo(BeNil())
			g.Expect(k8s.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: subscription.Status.InstallPlanRef.Name}, plan)).To(Succeed())
			g.Expect(plan.Status.Phase).To(Equal(operatorsv1alpha1.InstallPlanPhaseComplete))
		}).WithTimeout(later).Should(Succeed())
		csv, err := installedCSV(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(csv.Status.Phase).To(Equal(operatorsv1alpha1.CSVPhaseSucceeded))
		Expect(csv.Spec.InstallModes).To(ContainElement(operatorsv1alpha1.InstallMode{Type: operatorsv1alpha1.InstallModeTypeAllNamespaces, Supported: true}))
	})

	It("runs two replicas on different nodes, with a PodDisruptionBudget", func(ctx SpecContext) {
		operatorUp(ctx)
		operator := &k8sappsv1.Deployment{}
		Expect(k8s.Get(ctx, operatorKey, operator)).To(Succeed())
		Expect(operator.Spec.Replicas).To(HaveValue(BeEquivalentTo(2)))
		affinity := operator.Spec.Template.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		Expect(affinity).To(ConsistOf(HaveField("PodAffinityTerm.TopologyKey", corev1.LabelHostname)))
		budget := &policyv1.PodDisruptionBudget{}
		Expect(k8s.Get(ctx, operatorKey, budget)).To(Succeed())
		Expect(budget.Spec.MaxUnavailable.IntValue()).To(Equal(1))
		Eventually(ctx, func() (int32, error) {
			err := k8s.Get(ctx, operatorKey, budget)
			return budget.Status.DisruptionsAllowed, err
		}).WithTimeout(soon).Should(BeEquivalentTo(1), "the PodDisruptionBudget does not select the operator's pods")
	})

	It("passes Pod Security restricted", func(ctx SpecContext) {
		operator := &k8sappsv1.Deployment{}
		Expect(k8s.Get(ctx, operatorKey, operator)).To(Succeed())
		ns := newNamespace(ctx, restricted)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns.name, Name: "operator"}, Spec: operator.Spec.Template.Spec}
		pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount = "", ""
		Eventually(ctx, func() error { // until the namespace has its ServiceAccount
			return k8s.Create(ctx, pod.DeepCopy(), client.DryRunAll)
		}).WithTimeout(soon).Should(Succeed())
		pod.Spec.Containers[0].SecurityContext = nil
		Expect(k8s.Create(ctx, pod, client.DryRunAll)).To(MatchError(ContainSubstring("violates PodSecurity")), "the namespace does not check pods")
	})

	It("elects a new leader within seconds when the leader's pod is deleted", func(ctx SpecContext) {
		ns := newNamespace(ctx, nil)
		leader := leaderPod(ctx)
		start := time.Now()
		Expect(k8s.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: leader}})).To(Succeed())
		Eventually(ctx, func() (string, error) { // the webhooks of a terminating pod may still be called for a moment
			return ns.kubectlStdin(ctx, webAppManifest("meanwhile", "{image: 'nginx:1.25', replicas: 0}"), "apply", "-f", "-")
		}).WithTimeout(soon).Should(ContainSubstring("created"))
		Eventually(ctx, ns.condition("meanwhile", "Ready")).WithTimeout(soon).Should(HavePrefix("True "))
		Expect(leaderPod(ctx)).NotTo(Equal(leader))
		took := time.Since(start)
		AddReportEntry("leader deleted until the other made a new WebApp Ready", took.Round(100*time.Millisecond).String())
		fmt.Fprintf(GinkgoWriter, "measured: %.1f s from the deletion of the leader until a WebApp created meanwhile was Ready under the new leader\n", took.Seconds())
		operatorUp(ctx)
	})
}

// leaderPod returns the name of the pod that holds the Lease, once it is a pod that stays: after an installation the Lease may belong to a
// pod of the previous one.
func leaderPod(ctx context.Context) string {
	GinkgoHelper()
	var name string
	Eventually(ctx, func(ctx context.Context) (err error) {
		name, err = leader(ctx)
		return err
	}).WithTimeout(later).Should(Succeed())
	return name
}

// leader returns the name of the pod that holds the Lease; an error if no remaining pod does.
func leader(ctx context.Context) (string, error) {
	lease, pod := &coordinationv1.Lease{}, &corev1.Pod{}
	if err := k8s.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: leaseName}, lease); err != nil {
		return "", err
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return "", errors.New("there is no leader")
	}
	name, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	if err := k8s.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: name}, pod); err != nil {
		return "", fmt.Errorf("get leader: %w", err)
	}
	if pod.DeletionTimestamp != nil {
		return "", fmt.Errorf("the leader %s is about to exit", name)
	}
	return name, nil
}

// operatorUp waits until both replicas are ready, no third is left, and one of them is the leader.
func operatorUp(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		operator, pods := &k8sappsv1.Deployment{}, &corev1.PodList{}
		g.Expect(k8s.Get(ctx, operatorKey, operator)).To(Succeed())
		g.Expect(operator.Spec.Replicas).To(HaveValue(BeEquivalentTo(2)))
		g.Expect(operator.Status.ObservedGeneration).To(Equal(operator.Generation))
		g.Expect(operator.Status.UpdatedReplicas).To(BeEquivalentTo(2))
		g.Expect(operator.Status.AvailableReplicas).To(BeEquivalentTo(2))
		g.Expect(k8s.List(ctx, pods, client.InNamespace(operatorNamespace), operatorLabels)).To(Succeed())
		g.Expect(pods.Items).To(HaveLen(2))
		name, err := leader(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(pods.Items).To(ContainElement(HaveField("Name", name)))
		g.Expect(installedPhase(ctx)).To(Equal(operatorsv1alpha1.CSVPhaseSucceeded))
	}).WithTimeout(later).Should(Succeed())
}

// scaleOperator changes the number of replicas in OLM's object, because OLM reverts changes elsewhere.
func scaleOperator(ctx context.Context, replicas int32) {
	GinkgoHelper()
	csv, err := installedCSV(ctx)
	Expect(err).NotTo(HaveOccurred())
	patch, err := json.Marshal([]map[string]any{{
		"op": "replace", "path": "/spec/install/spec/deployments/0/spec/replicas", "value": replicas,
	}})
	Expect(err).NotTo(HaveOccurred())
	Expect(k8s.Patch(ctx, csv, client.RawPatch(types.JSONPatchType, patch))).To(Succeed())
	if replicas > 0 {
		operatorUp(ctx)
		return
	}
	Eventually(ctx, func() ([]corev1.Pod, error) {
		pods := &corev1.PodList{}
		err := k8s.List(ctx, pods, client.InNamespace(operatorNamespace), operatorLabels)
		return pods.Items, err
	}).WithTimeout(later).Should(BeEmpty())
}
