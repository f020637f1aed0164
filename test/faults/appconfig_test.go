package faults

import (
	"context"
	"errors"
	"fmt"
	"testing"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
)

const (
	cfgName       = "shop"
	cfgAnnotation = "config.fettle.dev/shop"

	plainConfig   = `{application: shop, environment: dev, values: {level: debug}, config: {LEVEL: "{{ .Values.level }}", URL: "http://x"}, target: {historyLimit: 0}, rollout: {debounce: 0s, minInterval: 0s}}`
	changedConfig = `{application: shop, environment: dev, values: {level: info}, config: {LEVEL: "{{ .Values.level }}", URL: "http://x"}, target: {historyLimit: 0}, rollout: {debounce: 0s, minInterval: 0s}}`
	versioned     = `{application: shop, environment: dev, values: {level: debug}, config: {LEVEL: "{{ .Values.level }}"}, target: {mode: Versioned, historyLimit: 0}, rollout: {debounce: 0s, minInterval: 0s}}`
	versioned2    = `{application: shop, environment: dev, values: {level: info}, config: {LEVEL: "{{ .Values.level }}"}, target: {mode: Versioned, historyLimit: 0}, rollout: {debounce: 0s, minInterval: 0s}}`
)

var (
	appConfigs  = configv1.GroupVersion.WithResource("appconfigs")
	cfgUsers    = k8sappsv1.SchemeGroupVersion.WithResource("deployments")
	cfgChildren = []schema.GroupVersionResource{
		corev1.SchemeGroupVersion.WithResource("configmaps"), corev1.SchemeGroupVersion.WithResource("secrets"), cfgUsers,
	}
)

func appConfigScenarios(t *testing.T) []Scenario {
	return scenariosOf(map[string][]Step{
		"publish": {cfgStep("create", plainConfig), cfgStep("change", changedConfig)},
		"rollout": {
			cfgStep("create", plainConfig),
			cfgUser("uses-level", "LEVEL"), cfgUser("uses-url", "URL"),
			{Name: "change a key that one of them uses", Converged: onlyRestarted("uses-level", "uses-url"), Do: setsConfig(changedConfig)},
		},
		"versioned": {
			cfgStep("create", versioned), cfgUser("uses-level", "LEVEL"),
			{Name: "change", Converged: onlyRestarted("uses-level"), Do: setsConfig(versioned2)},
		},
	}, func(name string, steps []Step) Scenario {
		scenario := webScenario(t, "appconfig-"+name, steps)
		scenario.Primary, scenario.Children = appConfigs, cfgChildren
		switch name {
		case "publish":
			scenario.Deletion = &Deletion{Object: Key{appConfigs, cfgName}}
		case "rollout":
			scenario.SkipByDefault = inFirstStep                                     // publish has the same creation
			scenario.Deletion = &Deletion{Step: 1, Object: Key{appConfigs, cfgName}} // after the record on a workload
		}
		return scenario
	})
}

// cfgStep creates the AppConfig or replaces its spec, and waits until it is Ready.
func cfgStep(name, spec string) Step {
	return Step{Name: name, Converged: Ready(appConfigs, cfgName), Do: setsConfig(spec)}
}

func setsConfig(spec string) func(context.Context, *Client) error {
	return func(ctx context.Context, w *Client) error {
		return retry.RetryOnConflict(retry.DefaultRetry, func() error { return tryConfig(ctx, w, spec) })
	}
}

func tryConfig(ctx context.Context, w *Client, spec string) error {
	cfg := &configv1.AppConfig{ObjectMeta: metav1.ObjectMeta{Name: cfgName, Namespace: w.Namespace}}
	err := w.Get(ctx, client.ObjectKeyFromObject(cfg), cfg)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	missing := err != nil
	cfg.Spec = configv1.AppConfigSpec{}
	if err := yaml.UnmarshalStrict([]byte(spec), &cfg.Spec); err != nil {
		return fmt.Errorf("spec of the scenario: %w", err)
	}
	if missing {
		return w.Create(ctx, cfg)
	}
	return w.Update(ctx, cfg)
}

// cfgUser creates a user's Deployment that takes one key, and waits until its contents are recorded.
func cfgUser(name, key string) Step {
	labels := map[string]string{"app": name}
	return Step{
		Name: "a Deployment that uses " + key, Converged: cfgRecorded(name),
		Do: func(ctx context.Context, w *Client) error {
			return w.Create(ctx, &k8sappsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.Namespace},
				Spec: k8sappsv1.DeploymentSpec{
					Selector: &metav1.LabelSelector{MatchLabels: labels},
					Template: corev1.PodTemplateSpec{
						ObjectMeta: metav1.ObjectMeta{Labels: labels},
						Spec: corev1.PodSpec{Containers: []corev1.Container{{
							Name: "app", Image: "example/app",
							Env: []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
								LocalObjectReference: corev1.LocalObjectReference{Name: "shop-config"}, Key: key,
							}}}},
						}}},
					},
				},
			})
		},
	}
}

// cfgRecorded requires a record of the contents that the Deployment runs, a complete rollout, and a Ready AppConfig.
func cfgRecorded(name string) func(View) error {
	return func(v View) error {
		d := v.Get(cfgUsers, name)
		if d == nil || d.GetAnnotations()[cfgAnnotation] == "" {
			return errors.New("the Deployment has no record")
		}
		if observed, _, _ := unstructured.NestedInt64(d.Object, "status", "observedGeneration"); observed != d.GetGeneration() {
			return errors.New("the Deployment was not rolled out yet")
		}
		return cfgListed(v, name)
	}
}

// cfgListed requires a Ready AppConfig that lists the Deployment as up to date.
func cfgListed(v View, name string) error {
	if err := Ready(appConfigs, cfgName)(v); err != nil {
		return err
	}
	dependents, _, _ := unstructured.NestedSlice(v.Get(appConfigs, cfgName).Object, "status", "dependents")
	for _, entry := range dependents {
		if d, ok := entry.(map[string]any); ok && d["name"] == name && d["state"] == "UpToDate" {
			return nil
		}
	}
	return fmt.Errorf("the AppConfig does not list %s as up to date: %v", name, dependents)
}

// onlyRestarted requires that the first Deployment was restarted, that all run the published contents, and that no other was restarted.
func onlyRestarted(name string, others ...string) func(View) error {
	hash := func(v View, name string) string {
		text, _, _ := unstructured.NestedString(v.Get(cfgUsers, name).Object, "spec", "template", "metadata", "annotations", cfgAnnotation)
		return text
	}
	return func(v View) error {
		for _, each := range append(others, name) {
			if err := cfgRecorded(each)(v); err != nil {
				return err
			}
		}
		level, _, _ := unstructured.NestedString(v.Get(appConfigs, cfgName).Object, "spec", "values", "level")
		if hash(v, name) == "" || level != "info" {
			return errors.New("the pods have not been restarted")
		}
		for _, other := range others {
			if hash(v, other) != "" {
				return fmt.Errorf("%s was restarted although it uses no changed key", other)
			}
		}
		return nil
	}
}
