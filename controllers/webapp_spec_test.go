package controllers_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

type edit = func(*appsv1.WebAppSpec)

func probing(p *appsv1.WebAppProbe) edit {
	return func(s *appsv1.WebAppSpec) { s.Probes.Readiness = p }
}

func mounting(v appsv1.WebAppVolume) edit {
	return func(s *appsv1.WebAppSpec) {
		v.Name = "v"
		s.Volumes = []appsv1.WebAppVolume{v}
		s.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	}
}

func overlaid(podTemplate string) edit {
	return func(s *appsv1.WebAppSpec) { s.PodTemplate = &runtime.RawExtension{Raw: []byte(podTemplate)} }
}

var _ = Describe("The spec of a WebApp", func() {
	// What the API server fills in beside a field of ours stays when the field goes, unless it is ours as well.
	DescribeTable("can be changed from one to the other and back",
		func(ctx context.Context, one, other edit) {
			app := newApp(newNamespace(ctx), "web", one)
			createReady(ctx, app)
			template := mustRead(ctx, deploymentOf(app)).Spec
			change(ctx, app, other)
			Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
			change(ctx, app, one)
			Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
			Expect(mustRead(ctx, deploymentOf(app)).Spec).To(Equal(template))
		},
		Entry("probe: HTTP, GRPC", probing(&appsv1.WebAppProbe{Path: "/"}), probing(&appsv1.WebAppProbe{Type: "GRPC"})),
		Entry("probe: GRPC, None", probing(&appsv1.WebAppProbe{Type: "GRPC"}), probing(&appsv1.WebAppProbe{Type: "None"})),
		Entry("volume: ConfigMap, Secret",
			mounting(appsv1.WebAppVolume{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "a"}}}),
			mounting(appsv1.WebAppVolume{Secret: &corev1.SecretVolumeSource{SecretName: "a"}})),
		Entry("volume: scratch, projected",
			mounting(appsv1.WebAppVolume{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
			mounting(appsv1.WebAppVolume{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
			}}})),
		Entry("volume: claim, none",
			mounting(appsv1.WebAppVolume{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "a"}}),
			func(s *appsv1.WebAppSpec) { s.Volumes, s.VolumeMounts = nil, nil }),
		Entry("strategy: own numbers, Recreate", func(s *appsv1.WebAppSpec) {
			s.Strategy = &appsv1.WebAppStrategy{Type: "RollingUpdate", MaxSurge: new(intstr.FromInt32(1)), MaxUnavailable: new(intstr.FromString("0%"))}
		}, func(s *appsv1.WebAppSpec) { s.Strategy = &appsv1.WebAppStrategy{Type: "Recreate"} }),
		Entry("ServiceAccount: default, own", func(s *appsv1.WebAppSpec) { s.ServiceAccountName = "" },
			func(s *appsv1.WebAppSpec) { s.ServiceAccountName = "web" }),
		Entry("extra ports", func(s *appsv1.WebAppSpec) { s.Service.ExtraPorts = nil }, func(s *appsv1.WebAppSpec) {
			s.Service.ExtraPorts = []appsv1.WebAppPort{{Name: "alt", Port: 8080, TargetPort: 80}, {Name: "metrics", Port: 9090}}
		}),
		Entry("Service: NodePort, ClusterIP", func(s *appsv1.WebAppSpec) { s.Service.Type = "NodePort" },
			func(s *appsv1.WebAppSpec) { s.Service.Type = "ClusterIP" }),
		Entry("environment", func(s *appsv1.WebAppSpec) { s.Env = []appsv1.WebAppEnvVar{{Name: "A", Value: "1"}} },
			func(s *appsv1.WebAppSpec) {
				s.Env = []appsv1.WebAppEnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}
			}),
		Entry("podTemplate: volumes, probes and variables of two kinds",
			overlaid(`{"spec": {"volumes": [{"name": "v", "configMap": {"name": "a"}}], "containers": [{"name": "app",
				"readinessProbe": {"httpGet": {"port": 80}}, "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}]}}`),
			overlaid(`{"spec": {"volumes": [{"name": "v", "secret": {"secretName": "a"}}], "containers": [{"name": "app",
				"readinessProbe": {"exec": {"command": ["a"]}}, "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]}]}}`)),
		Entry("podTemplate: none, sidecars", overlaid(`null`),
			overlaid(`{"spec": {"initContainers": [{"name": "a", "image": "a"}], "containers": [{"name": "b", "image": "b"}]}}`)),
		Entry("security profile", func(s *appsv1.WebAppSpec) { s.SecurityProfile = "Baseline" },
			func(s *appsv1.WebAppSpec) { s.SecurityProfile = "Restricted" }),
	)

	It("passes inherited labels and annotations to all children and pods", func(ctx context.Context) {
		app := newApp(newNamespace(ctx), "web", everything, func(s *appsv1.WebAppSpec) {
			s.InheritedMetadata = &fettlev1.InheritedMetadata{
				Labels: map[string]string{"app.kubernetes.io/part-of": "shop"}, Annotations: map[string]string{"example.com/team": "a"},
			}
		})
		createReady(ctx, app)
		for _, kind := range childKinds() {
			obj := child(app, kind)
			Expect(read(ctx, obj)).To(Succeed())
			Expect(obj.GetLabels()).To(HaveKeyWithValue("app.kubernetes.io/part-of", "shop"), "%T", obj)
			Expect(obj.GetAnnotations()).To(HaveKeyWithValue("example.com/team", "a"), "%T", obj)
		}
		template := mustRead(ctx, deploymentOf(app)).Spec.Template
		Expect(template.Labels).To(HaveKeyWithValue("app.kubernetes.io/part-of", "shop"))
		Expect(template.Annotations).To(HaveKeyWithValue("example.com/team", "a"))

		change(ctx, app, func(s *appsv1.WebAppSpec) { s.InheritedMetadata = nil })
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
		for _, kind := range childKinds() {
			obj := child(app, kind)
			Expect(read(ctx, obj)).To(Succeed())
			Expect(obj.GetLabels()).NotTo(HaveKey("app.kubernetes.io/part-of"), "%T", obj)
		}
		Expect(mustRead(ctx, deploymentOf(app)).Spec.Template.Labels).NotTo(HaveKey("app.kubernetes.io/part-of"))
	})

	It("holds the Deployment while its podTemplate can't be used", func(ctx context.Context) {
		app := newApp(newNamespace(ctx), "web", overlaid(`{"metadata": {"labels": {"team": "shop"}}}`))
		createReady(ctx, app)
		template := mustRead(ctx, deploymentOf(app)).Spec.Template
		Expect(template.Labels).To(HaveKeyWithValue("team", "shop"))
		change(ctx, app, overlaid(`{"metadata": {"labels": {"fettle.dev/owner-name": "other"}}, "spec": {"contaners": []}}`))
		Eventually(condition).WithContext(ctx).WithArguments(app, appsv1.WebAppApplied).Should(Equal("False Invalid"))
		Expect(message(app, "Ready")).To(And(ContainSubstring("spec.podTemplate.spec.contaners: Forbidden: unknown field"),
			ContainSubstring("spec.podTemplate.metadata.labels[fettle.dev/owner-name]: Forbidden")))
		change(ctx, app, func(s *appsv1.WebAppSpec) { s.Replicas = new(int32(1)) })
		Eventually(field(deploymentOf(app), replicasOf)).WithContext(ctx).Should(Equal(int32(1)))
		Expect(mustRead(ctx, deploymentOf(app)).Spec.Template).To(Equal(template))
		change(ctx, app, func(s *appsv1.WebAppSpec) { s.PodTemplate = nil })
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
		Expect(mustRead(ctx, deploymentOf(app)).Spec.Template.Labels).NotTo(HaveKey("team"))
	})

	It("that a child can't have is reported once, and not tried again until it changes", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		app := newApp(namespace, "web", func(s *appsv1.WebAppSpec) {
			s.Env = []appsv1.WebAppEnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{}}}
		})
		Expect(user.Create(ctx, app)).To(Succeed())
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("False Invalid"))
		Expect(message(app, "Ready")).To(ContainSubstring(`apply Deployment "web"`))
		Expect(message(app, "Ready")).To(ContainSubstring("valueFrom"))
		Expect(app.Status.Phase).To(Equal(appsv1.PhaseDegraded))
		Expect(read(ctx, child(app, &corev1.Service{}))).To(Succeed(), "the other children are written")
		Eventually(func() []string { return seriesOf(namespace) }).Should(ContainElement("webapp_errors_total"))
		settle(ctx)
		requests := countRequests(ctx, namespace)
		requests.expectIdle(ctx)
		change(ctx, app, func(s *appsv1.WebAppSpec) { s.Env = nil })
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
	})
})
