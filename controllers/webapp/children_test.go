package webapp

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	k8sappsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/optionalapi"
	"github.com/fettle-dev/fettle/internal/rollout"
	"github.com/fettle-dev/fettle/internal/testenv/golden"
)

// testCase is a testdata/*.yaml: a WebApp as the API server returns it, and what else decides its children.
type testCase struct {
	App             appsv1.WebApp     `json:"app"`
	NamespaceLabels map[string]string `json:"namespaceLabels"`
	Missing         []string          `json:"missing"`
	// Config tells for each of spec.configRefs whether the object exists.
	Config []bool `json:"config"`
}

func (c testCase) inputs() inputs {
	in := inputs{namespaceLabels: c.NamespaceLabels, apis: optionalapi.Served{Missing: map[string]bool{}}}
	for _, kind := range c.Missing {
		in.apis.Missing[kind] = true
	}
	for i, found := range c.Config {
		in.config = append(in.config, refState{ref: c.App.Spec.ConfigRefs[i], found: found})
	}
	return in
}

// TestDesired compares what would be sent with testdata/*.golden.yaml; `go test ./controllers/webapp -update` writes them.
func TestDesired(t *testing.T) {
	golden.Cases(t, 8, func(t *testing.T, c testCase) string {
		t.Helper()
		return golden.YAML(t, desired(&c.App, c.inputs()).objects)
	})
}

func TestDesired_autoscalerOwnsReplicas(t *testing.T) {
	s := newFixture(nil)
	find := func() *appsv1ac.DeploymentApplyConfiguration {
		return desired(s.app, s.in).objects[0].(*appsv1ac.DeploymentApplyConfiguration)
	}
	if d := find(); *d.Spec.Replicas != 3 || d.Annotations[annotationReplicas] == "" {
		t.Errorf("replicas %v, annotations %v", d.Spec.Replicas, d.Annotations)
	}
	s.app.Spec.Autoscaling = &appsv1.WebAppAutoscaling{MaxReplicas: 5}
	if d := find(); d.Spec.Replicas != nil || d.Annotations[annotationReplicas] != "" {
		t.Errorf("under an autoscaler: replicas %v, annotations %v", *d.Spec.Replicas, d.Annotations)
	}
	s.app.Spec.Autoscaling, s.in.foreign = nil, foreignScaler("mine")
	if d := find(); d.Spec.Replicas != nil || d.Annotations[annotationReplicas] != "" {
		t.Errorf("under a foreign autoscaler: replicas %v, annotations %v", *d.Spec.Replicas, d.Annotations)
	}
}

// foreignScaler scales the Deployment of a newFixture between 2 and 9 pods.
func foreignScaler(name string) *autoscalingv1.HorizontalPodAutoscaler {
	return &autoscalingv1.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			MinReplicas:    new(int32(2)), MaxReplicas: 9,
		},
	}
}

func TestScaledDeployment(t *testing.T) {
	controlledBy := func(apiVersion, kind string) func(*autoscalingv1.HorizontalPodAutoscaler) {
		return func(a *autoscalingv1.HorizontalPodAutoscaler) {
			a.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Controller: new(true)}}
		}
	}
	for name, tc := range map[string]struct {
		change func(*autoscalingv1.HorizontalPodAutoscaler)
		want   string
	}{
		"of another owner":       {func(*autoscalingv1.HorizontalPodAutoscaler) {}, "web"},
		"of KEDA":                {controlledBy("keda.sh/v1alpha1", "ScaledObject"), "web"},
		"of another kind WebApp": {controlledBy("example.com/v1", "WebApp"), "web"},
		"of a WebApp":            {controlledBy("apps.fettle.dev/v1", "WebApp"), ""},
		"scales the WebApp": {func(a *autoscalingv1.HorizontalPodAutoscaler) {
			a.Spec.ScaleTargetRef.APIVersion, a.Spec.ScaleTargetRef.Kind = "apps.fettle.dev/v1", "WebApp"
		}, ""},
		"scales a StatefulSet":     {func(a *autoscalingv1.HorizontalPodAutoscaler) { a.Spec.ScaleTargetRef.Kind = "StatefulSet" }, ""},
		"scales other Deployments": {func(a *autoscalingv1.HorizontalPodAutoscaler) { a.Spec.ScaleTargetRef.APIVersion = "example.com/v1" }, ""},
	} {
		a := foreignScaler("mine")
		tc.change(a)
		if got := scaledDeployment(a); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// Where a foreign autoscaler may go above one pod, evictions are bounded as under the WebApp's own.
func TestWantsPDB_foreignAutoscaler(t *testing.T) {
	s := newFixture(func(s *fixture) { s.app.Spec.Replicas, s.in.foreign = new(int32(1)), foreignScaler("mine") })
	if !wantsPDB(s.app, desired(s.app, s.in)) {
		t.Error("no PodDisruptionBudget under an autoscaler of up to 9 pods")
	}
	s.in.foreign.Spec.MaxReplicas = 1
	if wantsPDB(s.app, desired(s.app, s.in)) {
		t.Error("a PodDisruptionBudget for a single pod")
	}
}

func TestSelector_unique(t *testing.T) {
	s := newFixture(nil)
	want := map[string]string{"fettle.dev/owner-kind": "WebApp", "fettle.dev/owner-name": "web"}
	d := desired(s.app, s.in).objects[0].(*appsv1ac.DeploymentApplyConfiguration)
	if diff := cmp.Diff(want, d.Spec.Selector.MatchLabels); diff != "" {
		t.Errorf("selector (-want +got): %s", diff)
	}
	for k, v := range want {
		if d.Spec.Template.Labels[k] != v {
			t.Errorf("the pods lack the label %s=%s", k, v)
		}
	}
}

func TestDesired_waitsForConfiguration(t *testing.T) {
	s := newFixture(nil)
	s.app.Spec.ConfigRefs = []appsv1.ConfigRef{{Kind: kindConfigMap, Name: "a"}}
	s.in.config = []refState{state(kindConfigMap, "a", false)}
	p := desired(s.app, s.in)
	if _, first := p.objects[0].(*appsv1ac.DeploymentApplyConfiguration); first || !p.waitingForRefs {
		t.Error("the Deployment is written without its configuration")
	}
}

func TestUsesAnnotation(t *testing.T) {
	c := golden.Read[testCase](t, "testdata/everything.yaml")
	in := c.inputs()
	in.config = []refState{{ref: appsv1.ConfigRef{Kind: kindAppConfig, Name: "shop"}, found: true, publisher: "shop"}}
	p := desired(&c.App, in)
	d := deployment(&c.App, in, p)
	if got := d.Annotations[rollout.UsesAnnotation]; got != "shop" {
		t.Errorf("uses %q", got)
	}
	moved := in
	moved.versionedNames = map[string]string{"ConfigMap/settings": "settings-0123456789"}
	if a, b := d.Spec.Template.Annotations[annotationRevision], deployment(&c.App, moved, desired(&c.App, moved)).Spec.Template.Annotations[annotationRevision]; a != b {
		t.Error("a move of the rollout's is a new revision of the WebApp")
	}
}

// The number of pods is written alone if the Deployment is not applied, or is applied without it.
func TestScaledTo(t *testing.T) {
	autoscaling := &appsv1.WebAppAutoscaling{MinReplicas: 2, MaxReplicas: 9}
	for name, tc := range map[string]struct {
		held, specOwns bool
		autoscaling    *appsv1.WebAppAutoscaling
		foreign        *autoscalingv1.HorizontalPodAutoscaler
		spec, live     int32
		want           *int32
	}{
		"applied with the Deployment":                  {specOwns: true, spec: 5, live: 3},
		"a reference is missing":                       {held: true, specOwns: true, spec: 5, live: 3, want: new(int32(5))},
		"a reference is missing, nothing to scale":     {held: true, specOwns: true, spec: 3, live: 3},
		"an autoscaler takes over":                     {specOwns: true, autoscaling: autoscaling, spec: 1, live: 3, want: new(int32(3))},
		"a foreign autoscaler takes over":              {specOwns: true, foreign: foreignScaler("mine"), spec: 1, live: 3, want: new(int32(3))},
		"a foreign autoscaler scales":                  {foreign: foreignScaler("mine"), spec: 1, live: 3},
		"an autoscaler scales":                         {autoscaling: autoscaling, spec: 1, live: 3},
		"an autoscaler scales, a reference is missing": {held: true, specOwns: true, autoscaling: autoscaling, spec: 1, live: 3},
	} {
		s := newFixture(nil)
		s.app.Spec.Replicas, s.app.Spec.Autoscaling = &tc.spec, tc.autoscaling
		d := s.seen.deployment
		d.Spec.Replicas, d.Annotations = &tc.live, nil
		if tc.specOwns {
			d.Annotations = map[string]string{annotationReplicas: "spec"}
		}
		if diff := cmp.Diff(tc.want, scaledTo(s.app, plan{waitingForRefs: tc.held, autoscaled: scalingBounds(s.app, tc.foreign)}, d)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if scaledTo(newFixture(nil).app, plan{waitingForRefs: true}, nil) != nil {
		t.Error("a Deployment that does not exist is scaled")
	}
}

func TestToPrune(t *testing.T) {
	kinds := func(s fixture) []string {
		var out []string
		for _, o := range toPrune(s.app, s.in, desired(s.app, s.in)) {
			kind := o.GetObjectKind().GroupVersionKind().Kind
			if kind == "" {
				kind = o.GetName()
			}
			out = append(out, kind)
		}
		slices.Sort(out)
		return out
	}
	s := newFixture(nil)
	record := k8sappsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-old"}}
	s.in.revisions, s.in.apis.Missing = []k8sappsv1.ControllerRevision{record}, map[string]bool{optionalapi.HTTPRoute.Kind: true}
	got := kinds(s)
	// Ingress, NetworkPolicy and HorizontalPodAutoscaler by their name; the HTTPRoute can't exist.
	if diff := cmp.Diff([]string{"ServiceMonitor", "web", "web", "web", "web-old"}, got); diff != "" {
		t.Errorf("superfluous (-want +got): %s", diff)
	}
	everything := golden.Read[testCase](t, "testdata/everything.yaml")
	s.app, s.in = &everything.App, everything.inputs()
	if got := kinds(s); len(got) != 0 {
		t.Errorf("superfluous although all is asked for: %v", got)
	}
}

func TestPortsPatch(t *testing.T) {
	s := newFixture(nil)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}}
	service.Spec.Ports = []corev1.ServicePort{{Name: "theirs", Port: 1}, {Name: mainPort, Port: 81}}
	want := `[{"op":"test","path":"/metadata/resourceVersion","value":"7"},{"op":"replace","path":"/spec/ports/1/port","value":80}]`
	if diff := cmp.Diff(want, string(portsPatch(s.app, service))); diff != "" {
		t.Error(diff)
	}
	service.Spec.Ports[1].Port = 80
	if got := portsPatch(s.app, service); got != nil {
		t.Errorf("%s, want nothing", got)
	}
	service.Spec.Ports[1].Protocol = corev1.ProtocolUDP
	want = `[{"op":"test","path":"/metadata/resourceVersion","value":"7"},{"op":"replace","path":"/spec/ports/1/protocol","value":"TCP"}]`
	if diff := cmp.Diff(want, string(portsPatch(s.app, service))); diff != "" {
		t.Error(diff)
	}
}

func TestPortTaken(t *testing.T) {
	kind := schema.GroupKind{Kind: "Service"}
	taken := &apply.WriteError{Verb: "apply", Err: apierrors.NewInvalid(kind, "web", field.ErrorList{field.Duplicate(field.NewPath("spec", "ports").Index(1).Child("name"), mainPort)})}
	denied := &apply.WriteError{Verb: "apply", Err: apierrors.NewInvalid(kind, "web", field.ErrorList{field.Forbidden(field.NewPath("spec"), "by a policy")})}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"nothing":        {nil, false},
		"taken":          {errors.Join(taken), true},
		"denied":         {errors.Join(denied), false},
		"one of several": {errors.Join(denied, taken), true},
	} {
		if got := portTaken(c.err); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
