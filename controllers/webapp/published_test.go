package webapp

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/rollout"
)

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

func TestRenameFindsEveryReference(t *testing.T) {
	var found []string
	rename(document(template()), func(kind, name string) string {
		found = append(found, kind+"/"+name)
		return name
	})
	slices.Sort(found)
	want := []string{
		"ConfigMap/c1", "ConfigMap/c2", "ConfigMap/c3", "ConfigMap/c4", "Secret/s1", "Secret/s2", "Secret/s3", "Secret/s4",
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("references (-want +got):\n%s", diff)
	}
}

func TestMovedTo(t *testing.T) {
	ac := mirror[corev1ac.PodTemplateSpecApplyConfiguration](template())
	if movedTo(ac, nil) != ac {
		t.Error("a template without moved references is another one")
	}
	got := mirror[corev1.PodTemplateSpec](movedTo(ac, map[string]string{"ConfigMap/c2": "c2-0123456789", "Secret/s3": "s3-0123456789", "Secret/c1": "never"}))
	want := template()
	want.Spec.Containers[0].Env[0].ValueFrom.ConfigMapKeyRef.Name = "c2-0123456789"
	want.Spec.Volumes[1].Secret.SecretName = "s3-0123456789"
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("moved template (-want +got):\n%s", diff)
	}
}

func TestAppConfigsAreNotHashed(t *testing.T) {
	plain := state(kindConfigMap, "plain", "1")
	byName := configState{ref: appsv1.ConfigRef{Kind: kindAppConfig, Name: "shop"}, found: true, appConfig: "shop"}
	byMap := configState{ref: appsv1.ConfigRef{Kind: kindConfigMap, Name: "pay-config"}, found: true, appConfig: "pay"}
	twice := configState{ref: appsv1.ConfigRef{Kind: kindSecret, Name: "shop-config"}, found: true, appConfig: "shop"}
	all := []configState{byName, plain, byMap, twice}
	if got := appConfigs(all); got != "pay,shop" {
		t.Errorf("uses %q", got)
	}
	if configHash(all) != configHash([]configState{plain}) || configSeen(all) != configSeen([]configState{plain}) {
		t.Error("what an AppConfig publishes is hashed or remembered")
	}
	if configHash([]configState{byName}) != "" || appConfigs([]configState{plain}) != "" {
		t.Error("an AppConfig alone has a hash, or a ConfigMap is one")
	}
}

func TestUsesAnnotation(t *testing.T) {
	c := readCase(t, "testdata/everything.yaml")
	in := c.inputs()
	in.config = []configState{{ref: appsv1.ConfigRef{Kind: kindAppConfig, Name: "shop"}, found: true, appConfig: "shop"}}
	p := desired(&c.App, in)
	d := deployment(&c.App, in, p.running)
	if got := d.Annotations[rollout.UsesAnnotation]; got != "shop" {
		t.Errorf("uses %q", got)
	}
	moved := in
	moved.moved = map[string]string{"ConfigMap/settings": "settings-0123456789"}
	if a, b := d.Spec.Template.Annotations[annotationRevision], deployment(&c.App, moved, desired(&c.App, moved).running).Spec.Template.Annotations[annotationRevision]; a != b {
		t.Error("a move of the rollout's is a new revision of the WebApp")
	}
}

func TestMissingAppConfig(t *testing.T) {
	app := &appsv1.WebApp{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	v := configResolved(app, inputs{config: []configState{{ref: appsv1.ConfigRef{Kind: kindAppConfig, Name: "shop"}, appConfig: "shop"}}})
	if v.reason != appsv1.ReasonConfigMissing || !strings.Contains(v.message, `AppConfig "shop" does not exist in namespace "shop", or has published nothing yet`) {
		t.Errorf("%+v", v)
	}
}

func TestPublisherOf(t *testing.T) {
	owned := func(apiVersion, kind string, controller bool) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
			{APIVersion: apiVersion, Kind: kind, Name: "shop", Controller: &controller},
		}}}
	}
	for _, tc := range []struct {
		cm   *corev1.ConfigMap
		want string
	}{
		{owned("config.fettle.dev/v1", "AppConfig", true), "shop"},
		{owned("config.fettle.dev/v1", "AppConfig", false), ""},
		{owned("config.example.com/v1", "AppConfig", true), ""},
		{owned("voting.fettle.dev/v1alpha1", "VoteConfig", true), ""},
		{&corev1.ConfigMap{}, ""},
	} {
		if got := publisherOf(tc.cm); got != tc.want {
			t.Errorf("%v: published by %q", tc.cm.OwnerReferences, got)
		}
	}
}
