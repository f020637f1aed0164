package webapp

import (
	"context"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/rollout"
)

// versionedNames returns the version that the Deployment uses of each name in the spec that is the target of an AppConfig with
// versions. The AppConfig's rollout changes it. A version always has a ConfigMap, also if its Secret is meant.
func (c *configReader) versionedNames(ctx context.Context, app *appsv1.WebApp, d *k8sappsv1.Deployment) (map[string]string, error) {
	if d == nil || !refers(app) {
		return nil, nil //nolint:nilnil // none is an answer
	}
	moved := map[string]string{}
	var failed error
	rollout.Rename(toMap(d.Spec.Template), "", func(_, kind, name string) string {
		if base, ok := rollout.BaseOf(name); ok && failed == nil {
			_, publisher, err := c.find(ctx, kindConfigMap, client.ObjectKey{Namespace: app.Namespace, Name: name})
			if failed = err; publisher != "" {
				moved[kind+"/"+base] = name
			}
		}
		return name
	})
	return moved, failed
}

// refers reports whether the pods of app use ConfigMaps or Secrets.
func refers(app *appsv1.WebApp) bool {
	for i := range app.Spec.Env {
		if app.Spec.Env[i].ValueFrom != nil {
			return true
		}
	}
	return len(app.Spec.EnvFrom) > 0 || len(app.Spec.Volumes) > 0
}

// withVersions replaces the names in a pod template by the versions that the Deployment uses.
func withVersions(t *corev1ac.PodTemplateSpecApplyConfiguration, moved map[string]string) *corev1ac.PodTemplateSpecApplyConfiguration {
	if len(moved) == 0 {
		return t
	}
	doc := toMap(t)
	rollout.Rename(doc, "", func(_, kind, name string) string {
		if to, ok := moved[kind+"/"+name]; ok {
			return to
		}
		return name
	})
	return apply.Convert[corev1ac.PodTemplateSpecApplyConfiguration](doc)
}

// toMap is the JSON form of v.
func toMap(v any) map[string]any { return *apply.Convert[map[string]any](v) }
