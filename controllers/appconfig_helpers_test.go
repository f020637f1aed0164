package controllers_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
)

// newConfigNamespace is a namespace for one spec. Its AppConfigs go at the end, so that they don't keep the operator busy.
func newConfigNamespace(ctx context.Context) string {
	GinkgoHelper()
	name, err := env.NewNamespace(ctx, "appconfig")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx context.Context) {
		Expect(user.DeleteAllOf(ctx, &configv1.AppConfig{}, client.InNamespace(name))).To(Succeed())
		Expect(user.DeleteAllOf(ctx, &k8sappsv1.Deployment{}, client.InNamespace(name))).To(Succeed())
	})
	return name
}

// newConfig is the configuration of the application of the same name. It waits for nothing before restarts.
func newConfig(namespace, name string, change ...func(*configv1.AppConfigSpec)) *configv1.AppConfig {
	cfg := &configv1.AppConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: configv1.AppConfigSpec{
			Application: name, Environment: configv1.EnvironmentDev,
			Values: map[string]string{"level": "debug"},
			Config: map[string]string{"LOG_LEVEL": "{{ .Values.level }}", "URL": "http://{{ .Application }}.{{ .Environment }}"},
			Rollout: configv1.AppConfigRollout{
				Debounce: new(metav1.Duration), MinInterval: new(metav1.Duration),
			},
		},
	}
	for _, f := range change {
		f(&cfg.Spec)
	}
	return cfg
}

func createConfigReady(ctx context.Context, cfg *configv1.AppConfig) {
	GinkgoHelper()
	Expect(user.Create(ctx, cfg)).To(Succeed())
	Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("True Ready"))
}

func configReady(ctx context.Context, cfg *configv1.AppConfig) string {
	return configCondition(ctx, cfg, "Ready")
}

func configCondition(ctx context.Context, cfg *configv1.AppConfig, conditionType string) string {
	if err := read(ctx, cfg); err != nil {
		return err.Error()
	}
	c := meta.FindStatusCondition(cfg.Status.Conditions, conditionType)
	switch {
	case c == nil:
		return "none"
	case cfg.Status.ObservedGeneration < cfg.Generation:
		return "old"
	default:
		return string(c.Status) + " " + c.Reason
	}
}

func configMessage(cfg *configv1.AppConfig, conditionType string) string {
	if c := meta.FindStatusCondition(cfg.Status.Conditions, conditionType); c != nil {
		return c.Message
	}
	return ""
}

// changeConfig patches the spec of cfg as a user would.
func changeConfig(ctx context.Context, cfg *configv1.AppConfig, f func(*configv1.AppConfigSpec)) {
	GinkgoHelper()
	Expect(read(ctx, cfg)).To(Succeed())
	before := cfg.DeepCopy()
	f(&cfg.Spec)
	Expect(user.Patch(ctx, cfg, client.MergeFrom(before))).To(Succeed())
}

func mapNamed(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func secretNamed(namespace, name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// dataOf reads a ConfigMap's contents at each call; nil while there is none.
func dataOf(ctx context.Context, namespace, name string) map[string]string {
	cm := mapNamed(namespace, name)
	if read(ctx, cm) != nil {
		return nil
	}
	return cm.Data
}

// secretDataOf reads a Secret's contents at each call; nil while there is none.
func secretDataOf(ctx context.Context, namespace, name string) map[string]string {
	s := secretNamed(namespace, name)
	if read(ctx, s) != nil {
		return nil
	}
	data := map[string]string{}
	for k, v := range s.Data {
		data[k] = string(v)
	}
	return data
}

// configMaps are the names of all that Fettle published in the namespace.
func configMaps(ctx context.Context, namespace string) []string {
	list := &corev1.ConfigMapList{}
	if err := user.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{"fettle.dev/owner-kind": "AppConfig"}); err != nil {
		return []string{err.Error()}
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

// consumer is a Deployment of another owner that takes all keys of a ConfigMap.
func consumer(namespace, name, configMap string) *k8sappsv1.Deployment {
	labels := map[string]string{"app": name}
	return &k8sappsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec: k8sappsv1.DeploymentSpec{
			Replicas: new(int32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "app", Image: "nginx",
					EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: configMap}}}},
				}}},
			},
		},
	}
}

// createRunning creates a Deployment and waits until the data plane says that it runs.
func createRunning(ctx context.Context, d *k8sappsv1.Deployment) {
	GinkgoHelper()
	Expect(user.Create(ctx, d)).To(Succeed())
	Eventually(field(d, func(d *k8sappsv1.Deployment) int32 { return d.Status.AvailableReplicas })).WithContext(ctx).Should(BeNumerically(">=", 1))
}
