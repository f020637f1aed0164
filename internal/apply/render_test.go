package apply

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The same input gives the same bytes, whatever the order in which its maps were filled.
func TestRender_isDeterministic(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	keys := strings.Fields("a b c d e f g h i j k l m n o p")
	var first []byte
	for range 200 {
		rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		data := map[string]string{}
		for _, k := range keys {
			data[k] = "value of " + k
		}
		d := mustRender(t, corev1ac.ConfigMap("web", testNamespace).WithLabels(data).WithData(data), testOwner())
		raw, err := json.Marshal(d.content)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = raw
		}
		if string(raw) != string(first) {
			t.Fatalf("two results:\n%s\n%s", first, raw)
		}
	}
}

func TestRender_keepsItsInput(t *testing.T) {
	for _, config := range append(webChildren(testNamespace), client.ApplyConfigurationFromUnstructured(route(testNamespace))) {
		before, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		mustRender(t, config, testOwner())
		after, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		if string(before) != string(after) {
			t.Errorf("changed:\n%s\n%s", before, after)
		}
	}
}

// Whatever its form, the desired object has the encoding of its Go type, without additions.
func TestCanonical(t *testing.T) {
	fields := func(container map[string]any, pod map[string]any) *unstructured.Unstructured {
		container["name"] = "web"
		pod["containers"] = []any{container}
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "web", "namespace": testNamespace}, "spec": pod,
		}}
	}
	limits := func(cpu, memory any) map[string]any {
		return map[string]any{"resources": map[string]any{"limits": map[string]any{"cpu": cpu, "memory": memory}}}
	}
	none := map[string]any{}
	for _, tc := range []struct {
		name                         string
		container, pod               map[string]any
		wantContainer, wantPodFields map[string]any
	}{
		{"quantities", limits("1000m", "1024Mi"), none, limits("1", "1Gi"), none},
		{"fractions", limits("0.1", "1.5Gi"), none, limits("100m", "1536Mi"), none},
		{"quantities that are numbers", limits(int64(2), int64(1024)), none, limits("2", "1024"), none},
		{"empty lists and maps", map[string]any{"env": []any{}, "args": []any{}}, map[string]any{"nodeSelector": none}, none, none},
		{"empty structs with a meaning",
			none, map[string]any{"volumes": []any{map[string]any{"name": "a", "emptyDir": map[string]any{}}}},
			none, map[string]any{"volumes": []any{map[string]any{"name": "a", "emptyDir": map[string]any{}}}}},
		{"null", map[string]any{"image": nil}, map[string]any{"securityContext": nil}, none, none},
		{"unknown fields", map[string]any{"imaeg": "x"}, none, none, none},
		{"zero values that are stored",
			map[string]any{"securityContext": map[string]any{"privileged": false}}, map[string]any{"priority": int64(0)},
			map[string]any{"securityContext": map[string]any{"privileged": false}}, map[string]any{"priority": int64(0)}},
		{"zero values that are not stored",
			map[string]any{"tty": false, "image": ""}, map[string]any{"hostNetwork": false},
			map[string]any{"tty": zero{false}, "image": zero{""}}, map[string]any{"hostNetwork": zero{false}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := mustRender(t, client.ApplyConfigurationFromUnstructured(
				fields(maps.Clone(tc.container), maps.Clone(tc.pod))), testOwner())
			want := fields(maps.Clone(tc.wantContainer), maps.Clone(tc.wantPodFields)).Object["spec"]
			if diff := cmp.Diff(want, got.content["spec"], cmp.AllowUnexported(zero{})); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

// The hash changes with the content and only with the content.
func TestHash(t *testing.T) {
	hash := func(change func(*appsv1ac.DeploymentApplyConfiguration)) string {
		d := webDeployment(testNamespace)
		change(d)
		return mustRender(t, d, testOwner()).hash
	}
	limits := func(cpu, memory string) func(*appsv1ac.DeploymentApplyConfiguration) {
		return func(d *appsv1ac.DeploymentApplyConfiguration) {
			d.Spec.Template.Spec.Containers[0].Resources.Limits = &corev1.ResourceList{
				"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory),
			}
		}
	}
	base := hash(limits("1000m", "1024Mi"))
	for name, change := range map[string]func(*appsv1ac.DeploymentApplyConfiguration){
		"quantities":   limits("1", "1Gi"),
		"an empty map": func(d *appsv1ac.DeploymentApplyConfiguration) { d.Annotations = map[string]string{} },
		"an empty list": func(d *appsv1ac.DeploymentApplyConfiguration) {
			d.Spec.Template.Spec.ImagePullSecrets = []corev1ac.LocalObjectReferenceApplyConfiguration{}
		},
	} {
		if got := hash(change); got != base {
			t.Errorf("%s: another form of the same content changes the hash", name)
		}
	}
	seen := map[string]string{base: "the original"}
	for name, change := range map[string]func(*appsv1ac.DeploymentApplyConfiguration){
		"a quantity": limits("1001m", "1Gi"),
		"a field":    func(d *appsv1ac.DeploymentApplyConfiguration) { d.Spec.WithReplicas(3) },
		"no field":   func(d *appsv1ac.DeploymentApplyConfiguration) { d.Spec.Replicas = nil },
		"a label":    func(d *appsv1ac.DeploymentApplyConfiguration) { d.WithLabels(map[string]string{"more": ""}) },
		"order": func(d *appsv1ac.DeploymentApplyConfiguration) {
			env := d.Spec.Template.Spec.Containers[0].Env
			env[0], env[1] = env[1], env[0]
		},
	} {
		got := hash(change)
		if other, ok := seen[got]; ok {
			t.Errorf("%s has the hash of %s", name, other)
		}
		seen[got] = name
	}
	other := testOwner()
	other.uid = "0c7b5d6e-0000-4000-8000-000000000002"
	if mustRender(t, webDeployment(testNamespace), other).hash == mustRender(t, webDeployment(testNamespace), testOwner()).hash {
		t.Error("another owner has the same hash")
	}
}

func TestRender_rejects(t *testing.T) {
	foreign := metav1ac.OwnerReference().WithKind("Other").WithName("x").WithUID("y").WithController(true)
	malformed := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "web", "namespace": testNamespace}, "data": "text",
	}}
	for want, config := range map[string]runtime.ApplyConfiguration{
		`ConfigMap "web" is in namespace "other", its owner WebApp "web" in "shop": they must be in the same one`: corev1ac.ConfigMap("web", "other"),
		`Namespace "web" is in namespace "", its owner WebApp "web" in "shop": they must be in the same one`:      corev1ac.Namespace("web"),
		`needs an apiVersion, a kind and a name`:                                        &corev1ac.ConfigMapApplyConfiguration{},
		`ConfigMap "web": already has a controller: leave the owner reference to Apply`: corev1ac.ConfigMap("web", testNamespace).WithOwnerReferences(foreign),
		`ConfigMap "web": does not have the form of its kind`:                           client.ApplyConfigurationFromUnstructured(malformed),
	} {
		_, err := render(config, testOwner(), clientscheme.Scheme)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	if _, err := ownerOf(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, clientscheme.Scheme); err == nil {
		t.Error("an owner without a UID is accepted")
	}
	cluster := testOwner()
	cluster.name.Namespace = ""
	if _, err := render(corev1ac.ConfigMap("web", "other"), cluster, clientscheme.Scheme); err != nil {
		t.Errorf("the child of a cluster-scoped owner: %v", err)
	}
}

// Other owners of the desired object are kept beside the controller.
func TestRender_keepsOtherOwners(t *testing.T) {
	other := metav1ac.OwnerReference().WithAPIVersion("v1").WithKind("Node").WithName("x").WithUID("y")
	d := mustRender(t, corev1ac.ConfigMap("web", testNamespace).WithOwnerReferences(other), testOwner())
	live := liveCopy(t, d)
	if refs := live.GetOwnerReferences(); len(refs) != 2 || refs[0].UID != "y" || !testOwner().controls(live) {
		t.Errorf("owners: %v", refs)
	}
}
