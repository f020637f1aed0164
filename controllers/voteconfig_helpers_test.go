package controllers_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	votingv1alpha1 "github.com/fettle-dev/fettle/api/voting/v1alpha1"
)

// newVoteNamespace is a namespace for one spec. Its VoteConfigs go at the end, so that they don't keep the operator busy.
func newVoteNamespace(ctx context.Context) string {
	GinkgoHelper()
	name, err := env.NewNamespace(ctx, "voteconfig")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx context.Context) {
		Expect(user.DeleteAllOf(ctx, &votingv1alpha1.VoteConfig{}, client.InNamespace(name))).To(Succeed())
		Expect(user.DeleteAllOf(ctx, &k8sappsv1.Deployment{}, client.InNamespace(name))).To(Succeed())
	})
	return name
}

func newVote(namespace, name string, labels ...string) *votingv1alpha1.VoteConfig {
	vc := &votingv1alpha1.VoteConfig{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	for i, l := range labels {
		vc.Spec.Options = append(vc.Spec.Options, votingv1alpha1.VoteOption{ID: string(rune('a' + i)), Label: l})
	}
	return vc
}

func createVoteReady(ctx context.Context, vc *votingv1alpha1.VoteConfig) {
	GinkgoHelper()
	Expect(user.Create(ctx, vc)).To(Succeed())
	Eventually(voteReady).WithContext(ctx).WithArguments(vc).Should(Equal("True Ready"))
}

// voteReady reads vc again and says the status and reason of Ready, "old" while it speaks of an older generation.
func voteReady(ctx context.Context, vc *votingv1alpha1.VoteConfig) string {
	if err := read(ctx, vc); err != nil {
		return err.Error()
	}
	c := meta.FindStatusCondition(vc.Status.Conditions, "Ready")
	switch {
	case c == nil:
		return "none"
	case vc.Status.ObservedGeneration < vc.Generation || c.ObservedGeneration < vc.Generation:
		return "old"
	default:
		return string(c.Status) + " " + c.Reason
	}
}

func voteMessage(vc *votingv1alpha1.VoteConfig) string {
	if c := meta.FindStatusCondition(vc.Status.Conditions, "Ready"); c != nil {
		return c.Message
	}
	return ""
}

func changeVote(ctx context.Context, vc *votingv1alpha1.VoteConfig, f func(*votingv1alpha1.VoteConfigSpec)) {
	GinkgoHelper()
	Expect(read(ctx, vc)).To(Succeed())
	before := vc.DeepCopy()
	f(&vc.Spec)
	Expect(user.Patch(ctx, vc, client.MergeFrom(before))).To(Succeed())
}

// restarts is the pod template's annotation, which a restart sets; the note is that of the workload.
func restarts(vc string) func(*k8sappsv1.Deployment) string {
	return func(d *k8sappsv1.Deployment) string { return d.Spec.Template.Annotations["voting.fettle.dev/"+vc] }
}

func noteOf(vc string) func(*k8sappsv1.Deployment) string {
	return func(d *k8sappsv1.Deployment) string { return d.Annotations["voting.fettle.dev/"+vc] }
}

// reader is a Deployment that takes one key of a ConfigMap.
func reader(namespace, name, configMap, key string) *k8sappsv1.Deployment {
	d := consumer(namespace, name, configMap)
	c := &d.Spec.Template.Spec.Containers[0]
	c.EnvFrom = nil
	c.Env = []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: configMap}, Key: key,
	}}}}
	return d
}

// mounter is a Deployment that mounts a ConfigMap.
func mounter(namespace, name, configMap string) *k8sappsv1.Deployment {
	d := consumer(namespace, name, configMap)
	pod := &d.Spec.Template.Spec
	pod.Containers[0].EnvFrom = nil
	pod.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "vote", MountPath: "/etc/vote"}}
	pod.Volumes = []corev1.Volume{{Name: "vote", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: configMap},
	}}}}
	return d
}

// voteEvents are the type and reason of each event about vc.
func voteEvents(ctx context.Context, vc *votingv1alpha1.VoteConfig) []string {
	GinkgoHelper()
	list := &corev1.EventList{}
	Expect(user.List(ctx, list, client.InNamespace(vc.Namespace))).To(Succeed())
	var reasons []string
	for i := range list.Items {
		if e := &list.Items[i]; e.InvolvedObject.Name == vc.Name && e.InvolvedObject.Kind == "VoteConfig" {
			reasons = append(reasons, e.Type+" "+e.Reason)
		}
	}
	return reasons
}

// freezeDeployments has an admission policy reject every update of the Deployments of a namespace.
func freezeDeployments(ctx context.Context, namespace string) {
	GinkgoHelper()
	DeferCleanup(deny(ctx, namespace, rule("apps", "deployments", admissionv1.Update)))
	probe := &k8sappsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "app"}}
	Eventually(func(attempt context.Context) error {
		return user.Patch(attempt, probe, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"probe":"1"}}}`)), client.DryRunAll)
	}).WithContext(ctx).Should(MatchError(ContainSubstring(policyText)))
}
