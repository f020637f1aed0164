package webapp

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/fettle-dev/fettle/internal/apply"
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
