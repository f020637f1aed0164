package webapp

import (
	"context"
	"fmt"
	"regexp"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	configv1 "github.com/fettle-dev/fettle/api/config/v1"
)

// published returns the state of a reference to an AppConfig, or to what one publishes; known is false for others. The pods
// are restarted for it by the rollout of the AppConfig, in its turn, and not by the WebApp: one change, one restart.
func (c *configReader) published(ctx context.Context, key client.ObjectKey, ref appsv1.ConfigRef) (s configState, known bool, err error) {
	if ref.Kind == kindAppConfig {
		cfg := &configv1.AppConfig{}
		if err := c.cached.Get(ctx, key, cfg); client.IgnoreNotFound(err) != nil {
			return s, false, fmt.Errorf("get AppConfig %q: %w", key.Name, err)
		}
		return configState{ref: ref, found: cfg.Status.ConfigMapName != "", appConfig: ref.Name}, true, nil
	}
	name, err := c.publisher(ctx, key, ref.Kind)
	return configState{ref: ref, found: true, appConfig: name}, name != "", err
}

// publisher returns the name of the AppConfig that publishes a ConfigMap or Secret; "" when none does.
func (c *configReader) publisher(ctx context.Context, key client.ObjectKey, kind string) (string, error) {
	var obj client.Object = &corev1.ConfigMap{}
	if kind == kindSecret {
		if !c.watchSecrets {
			return "", nil // not in the cache
		}
		obj = &corev1.Secret{}
	}
	if err := c.cached.Get(ctx, key, obj); apierrors.IsNotFound(err) {
		return "", nil
	} else if err != nil {
		return "", fmt.Errorf("get %s %q: %w", kind, key.Name, err)
	}
	return publisherOf(obj), nil
}

// publisherOf returns the name of the AppConfig that controls obj; "" when none does.
func publisherOf(obj metav1.Object) string {
	ref := metav1.GetControllerOfNoCopy(obj)
	if ref == nil || ref.Kind != kindAppConfig || ref.APIVersion != configv1.GroupVersion.String() {
		return ""
	}
	return ref.Name
}

// versionName is that of one version of what an AppConfig with target.mode Versioned publishes.
var versionName = regexp.MustCompile(`^(.+)-[0-9a-f]{10}$`)

// moved returns, for the names in the spec that are the target of an AppConfig with versions, the version that the Deployment
// was moved to: that is the AppConfig's rollout's to change.
func (c *configReader) moved(ctx context.Context, app *appsv1.WebApp, d *k8sappsv1.Deployment) (map[string]string, error) {
	if d == nil || !refers(app) {
		return nil, nil //nolint:nilnil // none is an answer
	}
	moved := map[string]string{}
	var failed error
	rename(document(d.Spec.Template), func(kind, name string) string {
		match := versionName.FindStringSubmatch(name)
		if match == nil || failed != nil {
			return name
		}
		by, err := c.publisher(ctx, client.ObjectKey{Namespace: app.Namespace, Name: name}, kind)
		if err != nil {
			failed = err
		} else if by != "" {
			moved[kind+"/"+match[1]] = name
		}
		return name
	})
	return moved, failed
}

// refers reports whether the pods of app take anything from ConfigMaps or Secrets.
func refers(app *appsv1.WebApp) bool {
	for i := range app.Spec.Env {
		if app.Spec.Env[i].ValueFrom != nil {
			return true
		}
	}
	return len(app.Spec.EnvFrom) > 0 || len(app.Spec.Volumes) > 0
}

// movedTo gives the references of a template the names that the Deployment was moved to.
func movedTo(t *corev1ac.PodTemplateSpecApplyConfiguration, moved map[string]string) *corev1ac.PodTemplateSpecApplyConfiguration {
	if len(moved) == 0 {
		return t
	}
	doc := document(t)
	rename(doc, func(kind, name string) string {
		if to, ok := moved[kind+"/"+name]; ok {
			return to
		}
		return name
	})
	return mirror[corev1ac.PodTemplateSpecApplyConfiguration](doc)
}

// document is the JSON form of v.
func document(v any) map[string]any { return *mirror[map[string]any](v) }

// rename gives the references to ConfigMaps and Secrets in the JSON form of a pod template the names that to returns.
func rename(doc any, to func(kind, name string) string) {
	switch v := doc.(type) {
	case []any:
		for _, item := range v {
			rename(item, to)
		}
	case map[string]any:
		for key, value := range v {
			if ref, ok := value.(map[string]any); ok {
				renameOne(key, ref, to)
			}
			rename(value, to)
		}
	}
}

// renameOne renames ref if the field that holds it is a reference.
func renameOne(field string, ref map[string]any, to func(kind, name string) string) {
	kind := map[string]string{
		"configMapRef": kindConfigMap, "configMapKeyRef": kindConfigMap, "configMap": kindConfigMap,
		"secretRef": kindSecret, "secretKeyRef": kindSecret, "secret": kindSecret,
	}[field]
	if kind == "" {
		return
	}
	for _, key := range []string{"name", "secretName"} {
		if name, ok := ref[key].(string); ok {
			ref[key] = to(kind, name)
		}
	}
}
