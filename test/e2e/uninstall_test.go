package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
)

func uninstallSpecs() {
	It("removes the operator's objects, keeps the users' objects, and is reinstalled without a restart of a pod", func(ctx SpecContext) {
		ns := newNamespace(ctx, nil)
		ns.webApp(ctx, "app", "{image: 'nginx:1.25', replicas: 2}")
		ns.ready(ctx, "app")
		before := ns.identities(ctx)
		Expect(before).To(HaveLen(6)) // WebApp, Deployment, ReplicaSet, Service and two pods

		subscription := &operatorsv1alpha1.Subscription{}
		Expect(k8s.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: subscriptionName}, subscription)).To(Succeed())
		csv, err := installedCSV(ctx)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) { reinstall(ctx, subscription) }, NodeTimeout(25*time.Minute))
		Expect(k8s.Delete(ctx, subscription.DeepCopy())).To(Succeed())
		Expect(k8s.Delete(ctx, csv)).To(Succeed())

		Eventually(ctx, remainingObjects).WithTimeout(later).Should(BeEmpty(), "these objects of the operator are left")
		pauseFor(ctx, 5*time.Second)
		Expect(ns.identities(ctx)).To(Equal(before))
		ns.serves(ctx, "app", "nginx")
		ns.run(ctx, "patch", "webapp", "app", "--type=merge", "-p", `{"metadata":{"annotations":{"edited":"without the operator"}}}`)

		start := time.Now()
		reinstall(ctx, subscription)
		report(fmt.Sprintf("reinstalled after %.0f s", time.Since(start).Seconds()))
		ns.ready(ctx, "app")
		pauseFor(ctx, 15*time.Second)
		Expect(ns.identities(ctx)).To(Equal(before), "the new operator replaced an object")
		pods := &corev1.PodList{}
		Expect(k8s.List(ctx, pods, client.InNamespace(ns.name))).To(Succeed())
		for _, pod := range pods.Items {
			Expect(pod.Status.ContainerStatuses).To(HaveEach(HaveField("RestartCount", BeZero())))
		}
		ns.run(ctx, "scale", "webapp", "app", "--replicas=1")
		ns.run(ctx, "wait", "--for=jsonpath={.spec.replicas}=1", "deployment/app", "--timeout=300s")
	}, SpecTimeout(40*time.Minute))
}

// identities are the UIDs of the user's objects in the namespace.
func (n namespaced) identities(ctx context.Context) map[string]string {
	GinkgoHelper()
	uids := map[string]string{}
	for _, kind := range []schema.GroupVersionKind{
		appsv1.GroupVersion.WithKind("WebApp"), {Group: "apps", Version: "v1", Kind: "Deployment"},
		{Group: "apps", Version: "v1", Kind: "ReplicaSet"}, {Version: "v1", Kind: "Service"}, {Version: "v1", Kind: "Pod"},
	} {
		objects, err := list(ctx, kind, client.InNamespace(n.name))
		Expect(err).NotTo(HaveOccurred())
		for _, object := range objects {
			uids[kind.Kind+"/"+object.Name] = string(object.UID)
		}
	}
	return uids
}

// remainingObjects returns the objects of the installation that still exist. The CRDs stay, because the users' objects would be deleted
// with them. The bundle's ClusterRole for reading metrics stays too: OLM only removes roles that it created itself.
func remainingObjects(ctx context.Context) (left []string, err error) {
	keep := func(kind schema.GroupVersionKind, of func(metav1.PartialObjectMetadata) bool, opts ...client.ListOption) {
		objects, failed := list(ctx, kind, opts...)
		err = errors.Join(err, failed)
		for _, object := range objects {
			if of(object) {
				left = append(left, kind.Kind+"/"+object.Name)
			}
		}
	}
	named := func(o metav1.PartialObjectMetadata) bool {
		return strings.HasPrefix(o.Name, "fettle-controller-manager") || strings.HasPrefix(o.Name, "fettle.v")
	}
	ofCSV := func(o metav1.PartialObjectMetadata) bool {
		return named(o) || strings.HasPrefix(o.Labels["olm.owner"], "fettle.v") && o.Name != "fettle-metrics-reader"
	}
	for _, kind := range []schema.GroupVersionKind{
		{Group: "apps", Version: "v1", Kind: "Deployment"}, {Version: "v1", Kind: "Pod"}, {Version: "v1", Kind: "Service"},
		{Version: "v1", Kind: "ServiceAccount"}, {Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
		{Group: rbacv1.GroupName, Version: "v1", Kind: "Role"}, {Group: rbacv1.GroupName, Version: "v1", Kind: "RoleBinding"},
		{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "ClusterServiceVersion"}, // OLM installs none beside one that is being deleted
	} {
		keep(kind, named, client.InNamespace(operatorNamespace))
	}
	for _, kind := range []schema.GroupVersionKind{
		{Group: rbacv1.GroupName, Version: "v1", Kind: "ClusterRole"}, {Group: rbacv1.GroupName, Version: "v1", Kind: "ClusterRoleBinding"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"},
	} {
		keep(kind, ofCSV)
	}
	return left, err
}

func list(ctx context.Context, kind schema.GroupVersionKind, opts ...client.ListOption) ([]metav1.PartialObjectMetadata, error) {
	objects := &metav1.PartialObjectMetadataList{}
	objects.SetGroupVersionKind(kind)
	err := client.IgnoreNotFound(k8s.List(ctx, objects, opts...))
	return objects.Items, err
}

// reinstall restores the Subscription, if it is deleted, and waits for the operator.
func reinstall(ctx context.Context, old *operatorsv1alpha1.Subscription) {
	GinkgoHelper()
	fresh := &operatorsv1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: old.Namespace, Name: old.Name, Labels: old.Labels, Annotations: old.Annotations},
		Spec:       old.Spec,
	}
	if err := k8s.Create(ctx, fresh); err != nil {
		Expect(client.IgnoreAlreadyExists(err)).To(Succeed())
	}
	Eventually(ctx, installedPhase).WithTimeout(10 * time.Minute).Should(Equal(operatorsv1alpha1.CSVPhaseSucceeded))
	operatorUp(ctx)
}
