package apply

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	k8sappsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

func container(d *k8sappsv1.Deployment) *corev1.Container {
	return &d.Spec.Template.Spec.Containers[0]
}

// One write reverts each change that another client makes to a desired field.
func TestDrift_isRepaired(t *testing.T) {
	f := newFixture(t)
	f.apply(f.children()...)
	f.takeRequests()
	deployment := func(change func(*k8sappsv1.Deployment)) func() {
		return func() { editAsOther(f, &k8sappsv1.Deployment{}, change) }
	}
	for _, tc := range []struct {
		name    string
		disturb func()
		want    []string
	}{
		{"an owned field", deployment(func(d *k8sappsv1.Deployment) { container(d).Image = "evil" }), patches("deployments")},
		{"a quantity", deployment(func(d *k8sappsv1.Deployment) {
			container(d).Resources.Limits["cpu"] = resource.MustParse("1001m")
		}), patches("deployments")},
		{"an owned item of a list", deployment(func(d *k8sappsv1.Deployment) { container(d).Env = container(d).Env[1:] }), patches("deployments")},
		{"an item of an atomic list", deployment(func(d *k8sappsv1.Deployment) {
			d.Spec.Template.Spec.Tolerations = append(d.Spec.Template.Spec.Tolerations, corev1.Toleration{Operator: "Exists"})
		}), patches("deployments")},
		{"a whole block", deployment(func(d *k8sappsv1.Deployment) { container(d).ReadinessProbe = nil }), patches("deployments")},
		{"an empty value", deployment(func(d *k8sappsv1.Deployment) { container(d).Env[1].Value = "theirs" }), patches("deployments")},
		{"a value that is False", deployment(func(d *k8sappsv1.Deployment) { d.Spec.Template.Spec.HostNetwork = true }), patches("deployments")},
		{"a False that is stored", deployment(func(d *k8sappsv1.Deployment) {
			container(d).SecurityContext.AllowPrivilegeEscalation = nil
		}), patches("deployments")},
		{"the hash", deployment(func(d *k8sappsv1.Deployment) { delete(d.Annotations, hashAnnotation) }), patches("deployments")},
		{"a label", deployment(func(d *k8sappsv1.Deployment) { delete(d.Labels, "app") }), patches("deployments")},
		{"the owner reference", deployment(func(d *k8sappsv1.Deployment) { d.OwnerReferences = nil }), patches("deployments")},
		{"the controller of the owner reference", deployment(func(d *k8sappsv1.Deployment) {
			d.OwnerReferences[0].Controller = new(false)
		}), patches("deployments")},
		{"the label that the cache selects by", deployment(func(d *k8sappsv1.Deployment) {
			delete(d.Labels, "app.kubernetes.io/managed-by")
		}), []string{"PATCH(409) deployments/web", "GET deployments/web", "PATCH deployments/web"}},
		{"the key of an item", func() {
			editAsOther(f, &corev1.Service{}, func(s *corev1.Service) { s.Spec.Ports[0].Port = 7000 })
		}, []string{"PATCH(422) services/web", "PATCH services/web", "PATCH services/web"}},
		{"the key of an item in an item", deployment(func(d *k8sappsv1.Deployment) { container(d).Ports[0].ContainerPort = 7000 }),
			[]string{"PATCH(422) deployments/web", "PATCH deployments/web", "PATCH deployments/web"}},
		{"a selector", func() {
			editAsOther(f, &corev1.Service{}, func(s *corev1.Service) { s.Spec.Selector["more"] = "x" })
		}, patches("services")},
		{"a rule", func() {
			editAsOther(f, &networkingv1.NetworkPolicy{}, func(p *networkingv1.NetworkPolicy) {
				p.Spec.Ingress = append(p.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{})
			})
		}, patches("networkpolicies")},
		{"a wider selector of pods", func() {
			editAsOther(f, &networkingv1.NetworkPolicy{}, func(p *networkingv1.NetworkPolicy) {
				p.Spec.Ingress[0].From = []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}
			})
		}, patches("networkpolicies")},
		{"data", func() {
			editAsOther(f, &corev1.ConfigMap{}, func(c *corev1.ConfigMap) { c.Data["a"] = "2" })
		}, patches("configmaps")},
		{"an autoscaler's bound", func() {
			editAsOther(f, &autoscalingv2.HorizontalPodAutoscaler{}, func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.MaxReplicas = 50 })
		}, patches("horizontalpodautoscalers")},
		{"a deleted child", func() { f.remove(&corev1.Service{}) }, patches("services")},
		{"a deleted child with rules", func() { f.remove(&networkingv1.NetworkPolicy{}) }, patches("networkpolicies")},
	} {
		f.run(tc.name, func(*testing.T) {
			tc.disturb()
			f.apply(f.children()...)
			f.expect("repair", tc.want...)
			f.apply(f.children()...)
			f.expect("afterwards")
		})
	}
}

// Additions by other clients are kept, also by the write that repairs another field.
func TestForeignAdditions_areKept(t *testing.T) {
	f := newFixture(t)
	scaled := func() *appsv1ac.DeploymentApplyConfiguration {
		d := webDeployment(f.name)
		d.Spec.Replicas = nil // an autoscaler sets it
		return d
	}
	service := webService(f.name)
	service.Spec.WithType(corev1.ServiceTypeLoadBalancer)
	f.apply(scaled(), service)
	f.takeRequests()
	addToDeployment := func(d *k8sappsv1.Deployment) {
		d.Labels["theirs"] = "1"
		d.Annotations["deployment.kubernetes.io/revision"] = "7"
		d.Finalizers = []string{"example.com/theirs"}
		d.OwnerReferences = append(d.OwnerReferences, metav1.OwnerReference{
			APIVersion: "v1", Kind: "ConfigMap", Name: "theirs", UID: "0c7b5d6e-0000-4000-8000-00000000000f",
		})
		d.Spec.Replicas = new(int32(5))
		d.Spec.MinReadySeconds = 3
		template := &d.Spec.Template
		template.Annotations["kubectl.kubernetes.io/restartedAt"] = "2026-01-02T03:04:05Z"
		container(d).Env = append(container(d).Env, corev1.EnvVar{Name: "THEIRS", Value: "1"})
		container(d).Ports = append(container(d).Ports, corev1.ContainerPort{ContainerPort: 9999})
		container(d).LivenessProbe = &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}},
		}
		template.Spec.Containers = append([]corev1.Container{{Name: "sidecar", Image: "proxy"}}, template.Spec.Containers...)
		template.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "proxy"}}
		template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{Name: "theirs"})
		template.Spec.NodeSelector = map[string]string{"pool": "theirs"}
	}
	editAsOther(f, &k8sappsv1.Deployment{}, addToDeployment)
	editAsOther(f, &corev1.Service{}, func(s *corev1.Service) {
		s.Annotations["lb.example.com/id"] = "x"
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	})
	lb := &corev1.Service{}
	f.get(lb)
	lb.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	if err := f.admin.Status().Update(t.Context(), lb); err != nil {
		t.Fatal(err)
	}
	f.waitForCache(lb)
	for range 2 {
		f.apply(scaled(), service)
		f.expect("with foreign additions")
		f.restart()
	}

	editAsOther(f, &k8sappsv1.Deployment{}, func(d *k8sappsv1.Deployment) { d.Spec.Template.Spec.Containers[1].Image = "evil" })
	f.apply(scaled(), service)
	f.expect("with foreign additions and drift", patches("deployments")...)
	got := f.get(&k8sappsv1.Deployment{}).(*k8sappsv1.Deployment)
	names := []string{got.Spec.Template.Spec.Containers[0].Name, got.Spec.Template.Spec.Containers[1].Name}
	if got.Labels["theirs"] != "1" || *got.Spec.Replicas != 5 || len(got.Spec.Template.Spec.InitContainers) != 1 ||
		len(got.Spec.Template.Spec.Volumes) != 2 || len(got.OwnerReferences) != 2 {
		t.Errorf("the repair removed foreign additions: containers %v, %v", names, got)
	}
}

// Fields, items, keys and blocks that are no longer desired are removed.
func TestRemoval_isApplied(t *testing.T) {
	f := newFixture(t)
	f.apply(f.children()...)
	f.takeRequests()
	deployment := webDeployment(f.name)
	c := &deployment.Spec.Template.Spec.Containers[0]
	c.Env = c.Env[1:]
	c.EnvFrom = nil
	c.ReadinessProbe = nil
	delete(*c.Resources.Limits, "cpu")
	deployment.Spec.Template.Spec.Tolerations = nil
	deployment.Spec.Template.Spec.TopologySpreadConstraints = nil
	delete(deployment.Labels, "app")
	service := webService(f.name)
	service.Spec.Ports = service.Spec.Ports[:1]
	config := corev1ac.ConfigMap("web", f.name).WithLabels(testLabels()).WithData(map[string]string{"empty": ""})
	f.apply(deployment, service, config)
	f.expect("removal", patches("deployments", "services", "configmaps")...)

	d := f.get(&k8sappsv1.Deployment{}).(*k8sappsv1.Deployment)
	got := container(d)
	labels := testLabels()
	delete(labels, "app")
	for name, values := range map[string][2]any{
		"variables":   {2, len(got.Env)},
		"sources":     {0, len(got.EnvFrom)},
		"probe":       {(*corev1.Probe)(nil), got.ReadinessProbe},
		"limits":      {corev1.ResourceList{"memory": resource.MustParse("1Gi")}, got.Resources.Limits},
		"tolerations": {0, len(d.Spec.Template.Spec.Tolerations)},
		"spread":      {0, len(d.Spec.Template.Spec.TopologySpreadConstraints)},
		"labels":      {labels, d.Labels},
		"ports":       {1, len(f.get(&corev1.Service{}).(*corev1.Service).Spec.Ports)},
		"data":        {map[string]string{"empty": ""}, f.get(&corev1.ConfigMap{}).(*corev1.ConfigMap).Data},
		"binary data": {0, len(f.get(&corev1.ConfigMap{}).(*corev1.ConfigMap).BinaryData)},
	} {
		if diff := cmp.Diff(values[0], values[1]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	f.apply(deployment, service, config)
	f.expect("afterwards")
}

// A field that the API server does not store, or that admission mutates, is written once.
func TestMutatedFields_areWrittenOnce(t *testing.T) {
	f := newFixture(t)
	secret := corev1ac.Secret("web", f.name).WithLabels(testLabels()).WithStringData(map[string]string{"password": "hunter2"})
	f.apply(secret)
	f.expect("creation", patches("secrets")...)
	f.apply(secret)
	f.expect("again")
	editAsOther(f, &corev1.Secret{}, func(s *corev1.Secret) { s.Labels["app"] = "other" })
	f.apply(secret)
	f.expect("drift in another field", patches("secrets")...)
	f.apply(secret)
	f.expect("afterwards")
	f.restart()
	f.apply(secret)
	f.expect("after a restart", patches("secrets")...)
	f.apply(secret)
	f.expect("once more")
}
