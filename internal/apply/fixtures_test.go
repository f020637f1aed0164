package apply

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const testNamespace = "shop"

func testOwner() ownerRef {
	return ownerRef{
		gvk:  schema.GroupVersionKind{Group: "apps.fettle.dev", Version: "v1", Kind: "WebApp"},
		name: types.NamespacedName{Namespace: testNamespace, Name: "web"},
		uid:  "0c7b5d6e-0000-4000-8000-000000000001",
	}
}

func testLabels() map[string]string {
	return map[string]string{
		"app": "web", "app.kubernetes.io/managed-by": "fettle", "fettle.dev/owner-kind": "WebApp", "fettle.dev/owner-name": "web",
	}
}

// webDeployment is about as large as a WebApp's Deployment gets. Its form deliberately differs from the form that the API server stores.
func webDeployment(namespace string) *appsv1ac.DeploymentApplyConfiguration {
	container := corev1ac.Container().WithName("web").WithImage("nginx:1.29").
		WithPorts(corev1ac.ContainerPort().WithName("http").WithContainerPort(8080)).
		WithEnv(
			corev1ac.EnvVar().WithName("MODE").WithValue("production"),
			corev1ac.EnvVar().WithName("EMPTY").WithValue(""),
			corev1ac.EnvVar().WithName("POD").WithValueFrom(corev1ac.EnvVarSource().
				WithFieldRef(corev1ac.ObjectFieldSelector().WithFieldPath("metadata.name")))).
		WithEnvFrom(corev1ac.EnvFromSource().WithConfigMapRef(corev1ac.ConfigMapEnvSource().WithName("settings"))).
		WithResources(corev1ac.ResourceRequirements().
			WithRequests(corev1.ResourceList{"cpu": resource.MustParse("0.1"), "memory": resource.MustParse("64Mi")}).
			WithLimits(corev1.ResourceList{"cpu": resource.MustParse("1000m"), "memory": resource.MustParse("1024Mi")})).
		WithReadinessProbe(corev1ac.Probe().WithHTTPGet(corev1ac.HTTPGetAction().WithPath("/ready").WithPort(intstr.FromString("http")))).
		WithVolumeMounts(corev1ac.VolumeMount().WithName("tmp").WithMountPath("/tmp").WithReadOnly(false)).
		WithSecurityContext(corev1ac.SecurityContext().WithAllowPrivilegeEscalation(false).
			WithCapabilities(corev1ac.Capabilities().WithDrop("ALL")))
	return appsv1ac.Deployment("web", namespace).WithLabels(testLabels()).
		WithSpec(appsv1ac.DeploymentSpec().WithReplicas(2).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(map[string]string{"fettle.dev/owner-name": "web"})).
			WithTemplate(corev1ac.PodTemplateSpec().WithLabels(testLabels()).
				WithAnnotations(map[string]string{"fettle.dev/config-hash": "abc"}).
				WithSpec(corev1ac.PodSpec().WithHostNetwork(false).WithContainers(container).
					WithSecurityContext(corev1ac.PodSecurityContext().WithRunAsNonRoot(true).
						WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
					WithTopologySpreadConstraints(corev1ac.TopologySpreadConstraint().WithMaxSkew(1).
						WithTopologyKey("kubernetes.io/hostname").WithWhenUnsatisfiable(corev1.ScheduleAnyway).
						WithLabelSelector(metav1ac.LabelSelector().WithMatchLabels(map[string]string{"fettle.dev/owner-name": "web"}))).
					WithTolerations(corev1ac.Toleration().WithKey("spot").WithOperator(corev1.TolerationOpExists)).
					WithVolumes(corev1ac.Volume().WithName("tmp").WithEmptyDir(corev1ac.EmptyDirVolumeSource())))))
}

func webService(namespace string) *corev1ac.ServiceApplyConfiguration {
	return corev1ac.Service("web", namespace).WithLabels(testLabels()).
		WithSpec(corev1ac.ServiceSpec().WithSelector(map[string]string{"fettle.dev/owner-name": "web"}).
			WithPorts(
				corev1ac.ServicePort().WithName("http").WithPort(80).WithTargetPort(intstr.FromInt32(8080)),
				corev1ac.ServicePort().WithName("metrics").WithPort(9090).WithTargetPort(intstr.FromString("metrics"))))
}

func webNetworkPolicy(namespace string) *networkingv1ac.NetworkPolicyApplyConfiguration {
	return networkingv1ac.NetworkPolicy("web", namespace).WithLabels(testLabels()).
		WithSpec(networkingv1ac.NetworkPolicySpec().
			WithPodSelector(metav1ac.LabelSelector().WithMatchLabels(map[string]string{"fettle.dev/owner-name": "web"})).
			WithPolicyTypes("Ingress").
			WithIngress(networkingv1ac.NetworkPolicyIngressRule().
				WithPorts(networkingv1ac.NetworkPolicyPort().WithPort(intstr.FromInt32(8080))))) // the protocol is defaulted
}

func webIngress(namespace string) *networkingv1ac.IngressApplyConfiguration {
	return networkingv1ac.Ingress("web", namespace).WithLabels(testLabels()).
		WithSpec(networkingv1ac.IngressSpec().WithRules(networkingv1ac.IngressRule().WithHost("shop.example.com").
			WithHTTP(networkingv1ac.HTTPIngressRuleValue().WithPaths(networkingv1ac.HTTPIngressPath().
				WithPath("/").WithPathType("Prefix").WithBackend(networkingv1ac.IngressBackend().
				WithService(networkingv1ac.IngressServiceBackend().WithName("web").
					WithPort(networkingv1ac.ServiceBackendPort().WithName("http"))))))))
}

func webDisruptionBudget(namespace string) *policyv1ac.PodDisruptionBudgetApplyConfiguration {
	return policyv1ac.PodDisruptionBudget("web", namespace).WithLabels(testLabels()).
		WithSpec(policyv1ac.PodDisruptionBudgetSpec().WithMaxUnavailable(intstr.FromInt32(1)).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(map[string]string{"fettle.dev/owner-name": "web"})))
}

func webAutoscaler(namespace string) *autoscalingv2ac.HorizontalPodAutoscalerApplyConfiguration {
	return autoscalingv2ac.HorizontalPodAutoscaler("web", namespace).WithLabels(testLabels()).
		WithSpec(autoscalingv2ac.HorizontalPodAutoscalerSpec().WithMinReplicas(1).WithMaxReplicas(5).
			WithScaleTargetRef(autoscalingv2ac.CrossVersionObjectReference().
				WithAPIVersion("apps/v1").WithKind("Deployment").WithName("web")).
			WithMetrics(autoscalingv2ac.MetricSpec().WithType("Resource").
				WithResource(autoscalingv2ac.ResourceMetricSource().WithName("cpu").
					WithTarget(autoscalingv2ac.MetricTarget().WithType("Utilization").WithAverageUtilization(80)))))
}

// webChildren are children of every kind with special behaviour.
func webChildren(namespace string) []runtime.ApplyConfiguration {
	return []runtime.ApplyConfiguration{
		corev1ac.ServiceAccount("web", namespace).WithLabels(testLabels()).WithAutomountServiceAccountToken(false),
		corev1ac.ConfigMap("web", namespace).WithLabels(testLabels()).
			WithData(map[string]string{"a": "1", "empty": ""}).WithBinaryData(map[string][]byte{"b": {0, 255}}),
		corev1ac.Secret("web", namespace).WithLabels(testLabels()).WithData(map[string][]byte{"password": []byte("hunter2")}),
		webDeployment(namespace), webService(namespace), webNetworkPolicy(namespace),
		webIngress(namespace), webDisruptionBudget(namespace), webAutoscaler(namespace),
	}
}

func mustType(t *testing.T, gvk schema.GroupVersionKind) objectType {
	t.Helper()
	a := &Applier{scheme: clientscheme.Scheme, types: map[schema.GroupVersionKind]objectType{}}
	out, err := a.typeOf(gvk)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func mustRender(tb testing.TB, config runtime.ApplyConfiguration, owner ownerRef) *desiredObject {
	tb.Helper()
	d, err := render(config, owner, clientscheme.Scheme)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// liveCopy returns the desired object as a typed object, as a cache holds it.
func liveCopy(tb testing.TB, d *desiredObject) client.Object {
	tb.Helper()
	if !clientscheme.Scheme.Recognizes(d.gvk) {
		return &unstructured.Unstructured{Object: plain(d.content).(map[string]any)}
	}
	raw, err := json.Marshal(d.content)
	if err != nil {
		tb.Fatal(err)
	}
	obj, err := clientscheme.Scheme.New(d.gvk)
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(raw, obj); err != nil {
		tb.Fatal(err)
	}
	live := obj.(client.Object)
	live.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return live
}
