package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
)

// deploymentName is the name of the Deployment that uses the i-th configuration.
const deploymentName = "app-%05d"

// configContender is a contender that rolls configuration changes out to Deployments.
type configContender struct {
	contender
	plain     bool // it uses a ConfigMap instead of an AppConfig
	immediate bool // without Fettle's delays
	// pause is the time between the two phases, so a delay of the first does not affect the second.
	pause time.Duration
}

// configContenders are Fettle without and with its default delays, and the program at the path peer.
func configContenders(peer string) []configContender {
	ours := contender{name: fettleName, user: fettleUser, arguments: []string{"ours"}}
	delayed := ours
	delayed.name = fettleName + "-defaults"
	all := []configContender{{contender: ours, immediate: true}, {contender: delayed, pause: 35 * time.Second}}
	if peer != "" {
		all = append(all, configContender{plain: true, contender: contender{
			name: peerName, user: peerUser, binary: peer, arguments: []string{"--reload-strategy=annotations"},
		}})
	}
	return all
}

// peerName is a program that restarts users of a ConfigMap by annotations of stakater/Reloader.
const peerName = "reloader"

// create creates one configuration and the Deployment that uses two of its three keys.
func (r *changeRun) create(ctx context.Context, i int) error {
	return errors.Join(r.admin.Create(ctx, r.contender.source(r.namespace, i)), r.admin.Create(ctx, r.contender.deployment(r.namespace, i)))
}

// source is the user's object: an AppConfig, or a ConfigMap with the same keys.
func (c configContender) source(namespace string, i int) client.Object {
	name := fmt.Sprintf(deploymentName, i)
	if c.plain {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-config"},
			Data:       map[string]string{"LEVEL": "info", "URL": "postgres://db.local/" + name + "-dev", "OTHER": "x"},
		}
	}
	config := &configv1.AppConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: configv1.AppConfigSpec{
			Application: name, Environment: configv1.EnvironmentDev,
			Values: map[string]string{"level": "info", "host": "db.local"},
			Config: map[string]string{
				"LEVEL": "{{ .Values.level }}", "URL": "postgres://{{ .Values.host }}/{{ .Application }}-{{ .Environment }}", "OTHER": "x",
			},
		},
	}
	if c.immediate {
		config.Spec.Rollout.Debounce, config.Spec.Rollout.MinInterval = &metav1.Duration{}, &metav1.Duration{}
	}
	return config
}

func (c configContender) deployment(namespace string, i int) *k8sappsv1.Deployment {
	name := fmt.Sprintf(deploymentName, i)
	labels := map[string]string{"app": name}
	key := func(key string) corev1.EnvVar {
		return corev1.EnvVar{Name: key, ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: name + "-config"}, Key: key,
		}}}
	}
	d := &k8sappsv1.Deployment{
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
	if c.plain {
		d.Annotations = map[string]string{"reloader.stakater.com/auto": "true"}
	}
	return d
}

// change sets another level in one configuration.
func (c configContender) change(ctx context.Context, r *changeRun, i int, level string) error {
	object := c.source(r.namespace, i)
	patch := fmt.Appendf(nil, `{"spec":{"values":{"level":%q}}}`, level)
	if c.plain {
		patch = fmt.Appendf(nil, `{"data":{"LEVEL":%q}}`, level)
	}
	return r.admin.Patch(ctx, object, client.RawPatch("application/merge-patch+json", patch))
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
