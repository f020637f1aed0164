package webapp

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/yaml"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/podsecurity"
	"github.com/fettle-dev/fettle/internal/rollout"
	"github.com/fettle-dev/fettle/internal/testenv/golden"
)

// TestProfiles checks that the pods under a profile have no violation of it.
func TestProfiles(t *testing.T) {
	for _, name := range []string{"minimal", "everything", "restricted", "pod-template"} {
		c := golden.Read[testCase](t, "testdata/"+name+".yaml")
		c.App.Spec.PodSecurityContext, c.App.Spec.SecurityContext = nil, nil
		for _, profile := range []appsv1.SecurityProfile{appsv1.ProfileBaseline, appsv1.ProfileRestricted} {
			c.App.Spec.SecurityProfile = profile
			pod := apply.Convert[corev1.PodSpec](podTemplate(&c.App, c.inputs()).Spec)
			if got, err := podsecurity.Violations(pod, profile); err != nil || len(got) > 0 {
				t.Errorf("%s under %s: %v, %v", name, profile, got, err)
			}
		}
	}
}

func TestPullPolicy(t *testing.T) {
	for image, want := range map[string]corev1.PullPolicy{
		"nginx": corev1.PullAlways, "nginx:latest": corev1.PullAlways, "registry:5000/nginx": corev1.PullAlways,
		"nginx:1.25": corev1.PullIfNotPresent, "registry:5000/nginx:1.25": corev1.PullIfNotPresent, "Not A Name": corev1.PullIfNotPresent,
		"nginx:latest@sha256:" + strings.Repeat("0", 64): corev1.PullIfNotPresent,
	} {
		if got := pullPolicy(image); got != want {
			t.Errorf("%s: %s, want %s", image, got, want)
		}
	}
}

// template refers to ConfigMaps and Secrets in every way that a pod template can.
func template() corev1.PodTemplateSpec {
	named := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"secret": "label", "configMap": "label"}},
		Spec: corev1.PodSpec{
			ImagePullSecrets: []corev1.LocalObjectReference{named("pull")},
			InitContainers:   []corev1.Container{{Name: "init", EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: named("s1")}}}}},
			Containers: []corev1.Container{{
				Name: "app",
				EnvFrom: []corev1.EnvFromSource{
					{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: named("c1")}},
				},
				Env: []corev1.EnvVar{
					{Name: "A", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: named("c2"), Key: "k"}}},
					{Name: "B", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: named("s2"), Key: "k"}}},
				},
			}},
			Volumes: []corev1.Volume{
				{Name: "a", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("c3")}}},
				{Name: "b", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s3"}}},
				{Name: "c", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
					{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: named("c4")}},
					{Secret: &corev1.SecretProjection{LocalObjectReference: named("s4")}},
				}}}},
			},
		},
	}
}

func TestWithVersions(t *testing.T) {
	ac := apply.Convert[corev1ac.PodTemplateSpecApplyConfiguration](template())
	if withVersions(ac, nil) != ac {
		t.Error("a template without moved references is another one")
	}
	got := apply.Convert[corev1.PodTemplateSpec](withVersions(ac, map[string]string{"ConfigMap/c2": "c2-0123456789", "Secret/s3": "s3-0123456789", "Secret/c1": "never"}))
	want := template()
	want.Spec.Containers[0].Env[0].ValueFrom.ConfigMapKeyRef.Name = "c2-0123456789"
	want.Spec.Volumes[1].Secret.SecretName = "s3-0123456789"
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("moved template (-want +got):\n%s", diff)
	}
}

// rolling is a WebApp with automatic rollback of image, after good became ready.
func rolling(image string, good *revision) fixture {
	return newFixture(func(s *fixture) {
		s.app.Spec.Rollout.AutoRollback = true
		s.app.Spec.Image = image
		s.in.good = good
	})
}

func goodRevisionOf(image string) *revision {
	s := rolling(image, nil)
	r := desired(s.app, s.in).own
	return &r
}

func TestRollback_recordedFirst(t *testing.T) {
	good := goodRevisionOf("nginx:good")
	s := rolling("nginx:bad", good)
	exceeded(s.seen.deployment)

	first := desired(s.app, s.in)
	if first.running.hash != first.own.hash {
		t.Fatal("rolls back before the failure is in status")
	}
	status := s.status()
	if status.FailedRevision != first.own.hash || status.FailureMessage == "" {
		t.Fatalf("the journal has %q (%q), want %q", status.FailedRevision, status.FailureMessage, first.own.hash)
	}
	if second := desired(s.app, s.in); second.running.hash != good.hash || second.own.hash != first.own.hash {
		t.Fatalf("runs %s, want the last good one %s", second.running.hash, good.hash)
	}

	// The good template runs: the journal stays, until the spec changes.
	s.seen.deployment.Spec.Template.Annotations[annotationRevision] = good.hash
	s.seen.deployment.Status.Conditions = nil
	s.seen.deployment.Status.AvailableReplicas = 3
	if status = s.status(); status.FailedRevision == "" || status.Phase != appsv1.PhaseDegraded {
		t.Errorf("after the rollback: failedRevision %q, phase %s", status.FailedRevision, status.Phase)
	}
	s.app.Spec.Image = "nginx:next"
	if status = s.status(); status.FailedRevision != "" || desired(s.app, s.in).running.image != "nginx:next" {
		t.Error("the next image is not tried")
	}
}

func TestRollback_missingReference(t *testing.T) {
	s := rolling("nginx:bad", goodRevisionOf("nginx:good"))
	s.app.Spec.ConfigRefs = []appsv1.ConfigRef{{Kind: kindConfigMap, Name: "a"}}
	s.in.config = []refState{{ref: s.app.Spec.ConfigRefs[0], found: true}}
	failed := desired(s.app, s.in).own.hash
	s.app.Status.FailedRevision = failed
	s.in.config[0].found = false
	if got := s.status().FailedRevision; got != failed {
		t.Errorf("while the reference is missing failedRevision is %q, want %q", got, failed)
	}
}

func TestNoRollback(t *testing.T) {
	for name, change := range map[string]func(*fixture){
		"not asked for": func(s *fixture) { s.app.Spec.Rollout.AutoRollback = false },
		"nothing good":  func(s *fixture) { s.in.good = nil },
		"itself good":   func(s *fixture) { s.in.good = goodRevisionOf("nginx:bad") },
		"not failed":    func(s *fixture) { s.seen.deployment.Status.Conditions = nil },
	} {
		s := rolling("nginx:bad", goodRevisionOf("nginx:good"))
		exceeded(s.seen.deployment)
		change(&s)
		if status := s.status(); status.FailedRevision != "" {
			t.Errorf("%s: failedRevision %q", name, status.FailedRevision)
		}
	}
}

func TestGoodRevision(t *testing.T) {
	good := goodRevisionOf("nginx:good")
	recorded := func(s fixture) (images []string) {
		for _, o := range desired(s.app, s.in).objects {
			if r, ok := o.(*appsv1ac.ControllerRevisionApplyConfiguration); ok {
				images = append(images, lastGood([]k8sappsv1.ControllerRevision{stored(r)}).image)
			}
		}
		return images
	}
	s := rolling("nginx:new", good)
	if diff := cmp.Diff([]string{"nginx:good"}, recorded(s)); diff != "" {
		t.Errorf("while the new one is not ready: %s", diff)
	}
	s.in.ready = desired(s.app, s.in).own.hash
	if diff := cmp.Diff([]string{"nginx:new"}, recorded(s)); diff != "" {
		t.Errorf("once it is ready: %s", diff)
	}
	s.app.Spec.Rollout.AutoRollback = false
	if got := recorded(s); len(got) > 0 {
		t.Errorf("without autoRollback: %v", got)
	}
}

func stored(r *appsv1ac.ControllerRevisionApplyConfiguration) k8sappsv1.ControllerRevision {
	return k8sappsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: *r.Name, Annotations: r.Annotations}, Data: *r.Data,
	}
}

func TestLastGood(t *testing.T) {
	at := func(name string, seconds int64, data string) k8sappsv1.ControllerRevision {
		return k8sappsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, CreationTimestamp: metav1.NewTime(time.Unix(seconds, 0)), Annotations: map[string]string{annotationRevision: name},
			},
			Data: runtime.RawExtension{Raw: []byte(data)},
		}
	}
	records := []k8sappsv1.ControllerRevision{
		at("old", 1, `{"image":"a","template":{}}`), at("new", 2, `{"image":"b","template":{}}`), at("broken", 3, `nonsense`), at("foreign", 4, `{}`),
	}
	if got := lastGood(records); got == nil || got.hash != "new" || got.image != "b" {
		t.Errorf("%+v, want the newest that can be read", got)
	}
	if got := lastGood(nil); got != nil {
		t.Errorf("%+v out of nothing", got)
	}
}

// A release that put a hash of the contents into the template left the Deployment of testdata/former.golden.yaml for testdata/everything.yaml.
func TestUpgrade_startsNoPods(t *testing.T) {
	c := golden.Read[testCase](t, "testdata/everything.yaml")
	raw, err := os.ReadFile("testdata/former.golden.yaml")
	if err != nil {
		t.Fatal(err)
	}
	former := &k8sappsv1.Deployment{}
	if err := yaml.Unmarshal(raw, former); err != nil {
		t.Fatal(err)
	}
	in := c.inputs()
	in.live = former.Spec.Template.Annotations
	templateOf := func() *corev1.PodTemplateSpec {
		p := desired(&c.App, in)
		return apply.Convert[corev1.PodTemplateSpec](deployment(&c.App, in, p).Spec.Template)
	}
	if diff := cmp.Diff(&former.Spec.Template, templateOf()); diff != "" {
		t.Errorf("the upgrade changes the pod template (-former +now):\n%s", diff)
	}

	// A template that failed before the upgrade is not tried again.
	failed := in.live[annotationRevision]
	in.live = map[string]string{rollout.FormerHashAnnotation: in.live[rollout.FormerHashAnnotation], annotationRevision: "the last good one"}
	c.App.Status.FailedRevision = failed
	if got := desired(&c.App, in).own.hash; got != failed {
		t.Errorf("what failed is revision %s, was %s", got, failed)
	}

	c.App.Status.FailedRevision, c.App.Spec.Image = "", "nginx:next"
	if now := templateOf(); now.Annotations[rollout.FormerHashAnnotation] != "" {
		t.Error("the hash stays in a template that changes")
	}
}
