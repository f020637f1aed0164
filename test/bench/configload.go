package main

import (
	"context"
	"errors"
	"fmt"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
)

// deploymentName is the name of the Deployment that uses the i-th configuration.
const deploymentName = "app-%05d"

// create creates one configuration and the Deployment that uses two of its three keys.
func (r *changeRun) create(ctx context.Context, i int) error {
	return errors.Join(r.admin.Create(ctx, r.source(i)), r.admin.Create(ctx, deployment(r.namespace, i)))
}

func (r *changeRun) source(i int) *configv1.AppConfig {
	name := fmt.Sprintf(deploymentName, i)
	config := &configv1.AppConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name},
		Spec: configv1.AppConfigSpec{
			Application: name, Environment: configv1.EnvironmentDev,
			Values: map[string]string{"level": "info", "host": "db.local"},
			Config: map[string]string{
				"LEVEL": "{{ .Values.level }}", "URL": "postgres://{{ .Values.host }}/{{ .Application }}-{{ .Environment }}", "OTHER": "x",
			},
		},
	}
	if !r.delayed {
		config.Spec.Rollout.Debounce, config.Spec.Rollout.MinInterval = &metav1.Duration{}, &metav1.Duration{}
	}
	return config
}

func deployment(namespace string, i int) *k8sappsv1.Deployment {
	name := fmt.Sprintf(deploymentName, i)
	labels := map[string]string{"app": name}
	key := func(key string) corev1.EnvVar {
		return corev1.EnvVar{Name: key, ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: name + "-config"}, Key: key,
		}}}
	}
	return &k8sappsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: k8sappsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "app", Image: "nginx:1.25", Env: []corev1.EnvVar{key("LEVEL"), key("URL")},
				}}},
			},
		},
	}
}

// change sets another level in one configuration.
func (r *changeRun) change(ctx context.Context, i int, level string) error {
	patch := fmt.Appendf(nil, `{"spec":{"values":{"level":%q}}}`, level)
	return r.admin.Patch(ctx, r.source(i), client.RawPatch("application/merge-patch+json", patch))
}

// clear deletes the objects of a run, because no garbage collector runs here.
func (r *changeRun) clear(ctx context.Context) error {
	var errs []error
	for _, kind := range []client.Object{
		&configv1.AppConfig{}, &k8sappsv1.Deployment{}, &corev1.ConfigMap{}, &k8sappsv1.ControllerRevision{},
	} {
		errs = append(errs, r.admin.DeleteAllOf(ctx, kind, client.InNamespace(r.namespace)))
	}
	return errors.Join(errs...)
}
