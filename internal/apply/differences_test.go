package apply

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// TestDifferences has hand-written cases; the property tests cover the others.
func TestDifferences(t *testing.T) {
	deployment := func(change func(*k8sappsv1.Deployment)) func(runtime.Object) {
		return func(o runtime.Object) { change(o.(*k8sappsv1.Deployment)) }
	}
	service := func(change func(*corev1.Service)) func(runtime.Object) {
		return func(o runtime.Object) { change(o.(*corev1.Service)) }
	}
	policy := func(change func(*networkingv1.NetworkPolicy)) func(runtime.Object) {
		return func(o runtime.Object) { change(o.(*networkingv1.NetworkPolicy)) }
	}
	const pod = "/spec/template/spec"
	const c = pod + "/containers/web"
	for _, tc := range []struct {
		name    string
		desired runtime.ApplyConfiguration
		change  func(runtime.Object)
		want    []string
	}{
		{"nothing", webDeployment(testNamespace), deployment(func(*k8sappsv1.Deployment) {}), nil},
		{"a quantity in another form", webDeployment(testNamespace), deployment(func(d *k8sappsv1.Deployment) {
			container(d).Resources.Limits["cpu"] = resource.MustParse("1000m")
		}), nil},
		{"a quantity", webDeployment(testNamespace), deployment(func(d *k8sappsv1.Deployment) {
			container(d).Resources.Limits["cpu"] = resource.MustParse("1001m")
		}), []string{c + "/resources/limits/cpu"}},
		{"a sidecar before it", webDeployment(testNamespace), deployment(func(d *k8sappsv1.Deployment) {
			d.Spec.Template.Spec.Containers = append([]corev1.Container{{Name: "sidecar"}}, d.Spec.Template.Spec.Containers...)
		}), nil},
		{"a container with another name", webDeployment(testNamespace), deployment(func(d *k8sappsv1.Deployment) {
			container(d).Name = "other"
		}), []string{c}},
		{"a default", webDeployment(testNamespace), deployment(func(d *k8sappsv1.Deployment) {
			container(d).Env[2].ValueFrom.FieldRef.APIVersion = "v1"
		}), nil},
		{"another value than the default", webDeployment(testNamespace), deployment(func(d *k8sappsv1.Deployment) {
			container(d).Env[2].ValueFrom.FieldRef.APIVersion = "v2"
		}), []string{c + "/env/POD/valueFrom/fieldRef/apiVersion"}},
		{"a duplicate variable", webDeployment(testNamespace), deployment(func(d *k8sappsv1.Deployment) {
			container(d).Env = append(container(d).Env, corev1.EnvVar{Name: "MODE", Value: "debug"})
		}), []string{c + "/env/MODE"}},
		{"a port of another protocol", webDeployment(testNamespace), deployment(func(d *k8sappsv1.Deployment) {
			container(d).Ports[0].Protocol = corev1.ProtocolUDP
		}), []string{c + "/ports/8080,TCP"}},
		{"another source of a volume", webDeployment(testNamespace), deployment(func(d *k8sappsv1.Deployment) {
			d.Spec.Template.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
		}), []string{pod + "/volumes/tmp/emptyDir"}},
		{"two differences", webDeployment(testNamespace), deployment(func(d *k8sappsv1.Deployment) {
			d.Spec.Replicas = new(int32(9))
			container(d).Image = "x"
		}), []string{"/spec/replicas", c + "/image"}},
		{"a label with a slash", webDeployment(testNamespace), deployment(func(d *k8sappsv1.Deployment) {
			delete(d.Labels, "fettle.dev/owner-name")
		}), []string{"/metadata/labels/fettle.dev~1owner-name"}},
		{"host network", webDeployment(testNamespace), deployment(func(d *k8sappsv1.Deployment) {
			d.Spec.Template.Spec.HostNetwork = true
		}), []string{pod + "/hostNetwork"}},
		{"a selector with more terms", webDeployment(testNamespace), deployment(func(d *k8sappsv1.Deployment) {
			d.Spec.Selector.MatchLabels["more"] = ""
		}), []string{"/spec/selector/matchLabels/more"}},
		{"a selector with another kind of term", webDeployment(testNamespace), deployment(func(d *k8sappsv1.Deployment) {
			d.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "x", Operator: "Exists"}}
		}), []string{"/spec/selector/matchExpressions"}},
		{"an assigned address and node port", webService(testNamespace), service(func(s *corev1.Service) {
			s.Spec.ClusterIP = "10.0.0.7"
			s.Spec.Ports[0].NodePort = 30000
			s.Spec.Ports[0].Protocol = corev1.ProtocolTCP
		}), nil},
		{"a target port as text", webService(testNamespace), service(func(s *corev1.Service) {
			s.Spec.Ports[0].TargetPort.Type, s.Spec.Ports[0].TargetPort.StrVal = 1, "8080"
		}), []string{"/spec/ports/80,TCP/targetPort"}},
		{"a selector with an additional label", webService(testNamespace), service(func(s *corev1.Service) {
			s.Spec.Selector["more"] = "x"
		}), []string{"/spec/selector/more"}},
		{"a default inside a rule", webNetworkPolicy(testNamespace), policy(func(p *networkingv1.NetworkPolicy) {
			p.Spec.Ingress[0].Ports[0].Protocol = new(corev1.ProtocolTCP)
		}), nil},
		{"an additional rule", webNetworkPolicy(testNamespace), policy(func(p *networkingv1.NetworkPolicy) {
			p.Spec.Ingress = append(p.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{})
		}), []string{"/spec/ingress"}},
		{"a range of ports", webNetworkPolicy(testNamespace), policy(func(p *networkingv1.NetworkPolicy) {
			p.Spec.Ingress[0].Ports[0].EndPort = new(int32(9000))
		}), []string{"/spec/ingress/0/ports/0/endPort"}},
		{"a peer in a rule", webNetworkPolicy(testNamespace), policy(func(p *networkingv1.NetworkPolicy) {
			p.Spec.Ingress[0].From = []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}
		}), []string{"/spec/ingress/0/from"}},
		{"a finalizer of the set", corev1ac.ConfigMap("web", testNamespace).WithFinalizers("a/a", "b/b"), func(o runtime.Object) {
			o.(*corev1.ConfigMap).Finalizers = []string{"c/c", "b/b"}
		}, []string{"/metadata/finalizers/a~1a"}},
		{"binary data", corev1ac.ConfigMap("web", testNamespace).WithBinaryData(map[string][]byte{"b": {1, 2}}), func(o runtime.Object) {
			o.(*corev1.ConfigMap).BinaryData["b"] = []byte{1, 3}
		}, []string{"/binaryData/b"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := mustRender(t, tc.desired, testOwner())
			live := liveCopy(t, d)
			tc.change(live)
			got, err := compare(d, live, mustType(t, d.gvk))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEqualScalar(t *testing.T) {
	for _, tc := range []struct {
		want, have any
		equal      bool
	}{
		{int64(1), int64(1), true},
		{int64(1), float64(1), true},
		{float64(1), int64(1), true},
		{1.5, 1.5, true},
		{1.5, int64(1), false},
		{int64(1), int64(2), false},
		{int64(1) << 60, int64(1)<<60 + 1, false},
		{"1", int64(1), false},
		{int64(1), "1", false},
		{"a", "a", true},
		{"a", "b", false},
		{"", nil, false},
		{true, true, true},
		{true, false, false},
		{false, nil, false},
		{"true", true, false},
	} {
		if got := equalScalar(tc.want, value.NewValueInterface(tc.have)); got != tc.equal {
			t.Errorf("%#v and %#v: equal %v, want %v", tc.want, tc.have, got, tc.equal)
		}
	}
}
