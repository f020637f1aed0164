package faults

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/yaml"

	"github.com/fettle-dev/fettle/api"
	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/controllers"
	opcache "github.com/fettle-dev/fettle/internal/cache"
	"github.com/fettle-dev/fettle/internal/digest"
	"github.com/fettle-dev/fettle/internal/rollout"
	"github.com/fettle-dev/fettle/internal/testenv"
)

const webName = "shop"

var webApps = appsv1.GroupVersion.WithResource("webapps")

// webChildren are the kinds that a WebApp may have children of.
var webChildren = []schema.GroupVersionResource{
	k8sappsv1.SchemeGroupVersion.WithResource("deployments"),
	k8sappsv1.SchemeGroupVersion.WithResource("controllerrevisions"),
	corev1.SchemeGroupVersion.WithResource("services"),
	networkingv1.SchemeGroupVersion.WithResource("ingresses"),
	networkingv1.SchemeGroupVersion.WithResource("networkpolicies"),
	autoscalingv2.SchemeGroupVersion.WithResource("horizontalpodautoscalers"),
	policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"),
	{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"},
	{Group: "monitoring.coreos.com", Version: "v1", Resource: "servicemonitors"},
}

const (
	minimalSpec = `image: nginx:1.25`
	updatedSpec = `{image: nginx:1.26, replicas: 2}`
	fullSpec    = `
image: nginx:1.25
port: 8080
service: {port: 80, extraPorts: [{name: metrics, port: 9090}]}
env: [{name: MODE, value: production}]
resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 128Mi}}
probes: {readiness: {path: /ready}, liveness: {path: /live}}
ingress: {host: shop.example.com, tlsSecretName: shop-tls}
gateway: {parentRefs: [{name: public, namespace: infra}], hostnames: [shop.example.com]}
autoscaling: {minReplicas: 2, maxReplicas: 5, targetCPUUtilizationPercentage: 70}
networkPolicy: {from: [{namespaceSelector: {matchLabels: {team: web}}}]}
monitoring: {port: metrics}
volumes: [{name: scratch, emptyDir: {}}]
volumeMounts: [{name: scratch, mountPath: /tmp}]`
	configSpec = `{image: nginx:1.25, configRefs: [{kind: ConfigMap, name: settings}]}`
	goodSpec   = `{image: nginx:1.25, rollout: {autoRollback: true}}`
	scaledSpec = `
image: nginx:1.26
resources: {requests: {memory: 64Mi}}
autoscaling: {minReplicas: 2, maxReplicas: 4, targetMemoryUtilizationPercentage: 60}`
	stoppedSpec = `{image: nginx:1.26, replicas: 0}`
	badSpec     = `{image: nginx:broken, rollout: {autoRollback: true}}`
	fixedSpec   = `{image: nginx:1.26, rollout: {autoRollback: true}}`
)

func webAppScenarios(t *testing.T) []Scenario {
	return scenariosOf(map[string][]Step{
		"update":   {webStep("create", minimalSpec), webStep("new image and replicas", updatedSpec)},
		"full":     {fullStep()},
		"shrink":   {fullStep(), webStep("remove all optional fields", updatedSpec)},
		"scale":    {webStep("create", updatedSpec), webStep("autoscaling", scaledSpec), webStep("to zero", stoppedSpec)},
		"config":   configSteps(),
		"rollback": rollbackSteps(),
	}, func(name string, steps []Step) Scenario {
		scenario := webScenario(t, "webapp-"+name, steps)
		if name == "full" {
			scenario.Deletion = &Deletion{Object: Key{webApps, webName}}
		}
		if name == "shrink" || name == "scale" {
			scenario.SkipByDefault = inFirstStep // another scenario has the same creation
		}
		scenario.Impossible = func(p Plan) bool { // a re-created ConfigMap runs with the changed contents without a restart
			return name == "config" && p.Kind == Deleted && p.Target.Resource == webChildren[0]
		}
		return scenario
	})
}

// scenariosOf are the scenarios of a kind.
func scenariosOf[T any](contents map[string]T, build func(name string, content T) Scenario) []Scenario {
	var scenarios []Scenario
	for _, name := range slices.Sorted(maps.Keys(contents)) {
		scenarios = append(scenarios, build(name, contents[name]))
	}
	return scenarios
}

// inFirstStep is true for a fault at a write of the first step.
func inFirstStep(p Plan) bool { return p.Step == 0 && p.Call != "" }

func webScenario(t *testing.T, name string, steps []Step) Scenario {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, api.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	watched, err := opcache.Options(nil)
	if err != nil {
		t.Fatal(err)
	}
	haveKey(t)
	return Scenario{
		Name: name, Scheme: scheme, Primary: webApps, Children: webChildren, Steps: steps,
		Cache: watched, NewCache: opcache.New(true), Rules: Rules{Normalize: normalizeVersions},
		Setup: func(mgr manager.Manager, namespace string) error {
			return controllers.Setup(mgr, controllers.Options{Namespaces: []string{namespace}, Workers: 5, WatchSecrets: true, RestartDelay: time.Millisecond,
				OperatorNamespace: metav1.NamespaceDefault})
		},
	}
}

// normalizeVersions removes the annotations of a Deployment with the UID and resourceVersion of the ConfigMap, and its generation. The
// generation counts the record of the running contents, which is not written if the ConfigMap changes first.
func normalizeVersions(_ Kind, o *unstructured.Unstructured) {
	annotations := o.GetAnnotations()
	if annotations[rollout.CreatedWithAnnotation] != "" {
		unstructured.RemoveNestedField(o.Object, "metadata", "generation")
		unstructured.RemoveNestedField(o.Object, "status", "observedGeneration")
	}
	delete(annotations, rollout.CreatedWithAnnotation)
	delete(annotations, rollout.ConfigMapPrefix+"/settings")
	o.SetAnnotations(annotations)
}

// haveKey creates the digest key, as an earlier operator process did: its request is not part of a scenario.
func haveKey(t *testing.T) {
	t.Helper()
	admin, err := client.New(env.Admin, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	key := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault, Name: digest.SecretName, Labels: map[string]string{"app.kubernetes.io/managed-by": "fettle"},
		},
		Data: map[string][]byte{"key": make([]byte, 32)},
	}
	if err := admin.Create(t.Context(), key); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// webStep creates the WebApp or replaces its spec, and waits until it is Ready.
func webStep(name, spec string) Step {
	return Step{Name: name, Converged: Ready(webApps, webName), Do: func(ctx context.Context, w *Client) error { return setWebApp(ctx, w, spec) }}
}

// fullStep creates a WebApp with all optional fields. Its pods become ready. Gateway and certificate do not, because nothing simulates
// them.
func fullStep() Step {
	return Step{
		Name: "create", Do: func(ctx context.Context, w *Client) error { return setWebApp(ctx, w, fullSpec) },
		Converged: func(v View) error {
			app, err := webAppIn(v)
			if err != nil {
				return err
			}
			if !meta.IsStatusConditionTrue(app.Status.Conditions, appsv1.WebAppAvailable) || !meta.IsStatusConditionTrue(app.Status.Conditions, appsv1.WebAppMonitored) {
				return fmt.Errorf("the pods are not ready: %+v", app.Status.Conditions)
			}
			return waitsFor(appsv1.ReasonRoutePending)(v)
		},
	}
}

// setWebApp is a change by a user, which is retried after a conflict with the operator's write.
func setWebApp(ctx context.Context, w *Client, spec string) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error { return tryWebApp(ctx, w, spec) })
}

func tryWebApp(ctx context.Context, w *Client, spec string) error {
	app := &appsv1.WebApp{ObjectMeta: metav1.ObjectMeta{Name: webName, Namespace: w.Namespace}}
	err := w.Get(ctx, client.ObjectKeyFromObject(app), app)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	missing := err != nil
	app.Spec = appsv1.WebAppSpec{}
	if err := yaml.UnmarshalStrict([]byte(spec), &app.Spec); err != nil {
		return fmt.Errorf("spec of the scenario: %w", err)
	}
	if missing {
		return w.Create(ctx, app)
	}
	return w.Update(ctx, app)
}

// configSteps create a WebApp that waits for its ConfigMap, starts when the ConfigMap exists, and restarts once when it changes.
func configSteps() []Step {
	return []Step{{
		Name: "create without the ConfigMap", Converged: waitsFor(appsv1.ReasonConfigMissing),
		Do: func(ctx context.Context, w *Client) error { return setWebApp(ctx, w, configSpec) },
	}, {
		Name: "create the ConfigMap", Converged: Ready(webApps, webName),
		Do: func(ctx context.Context, w *Client) error { return w.Create(ctx, settings(w, "1")) },
	}, {
		Name: "change the ConfigMap", Converged: restartedWithConfig(),
		Do: func(ctx context.Context, w *Client) error { return w.Update(ctx, settings(w, "2")) },
	}}
}

func settings(w *Client, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "settings", Namespace: w.Namespace}, Data: map[string]string{"value": value},
	}
}

func waitsFor(reason string) func(View) error {
	return func(v View) error {
		app, err := webAppIn(v)
		if err != nil {
			return err
		}
		for _, c := range app.Status.Conditions {
			if c.Type == "Ready" && c.Status == metav1.ConditionFalse && c.Reason == reason && c.ObservedGeneration == app.Generation {
				return nil
			}
		}
		return fmt.Errorf("not yet Ready=False with reason %s: %+v", reason, app.Status.Conditions)
	}
}

func webAppIn(v View) (*appsv1.WebApp, error) {
	object := v.Get(webApps, webName)
	if object == nil {
		return nil, fmt.Errorf("the WebApp does not exist")
	}
	app := &appsv1.WebApp{}
	return app, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, app)
}

// restartedWithConfig requires another pod template than the first one.
func restartedWithConfig() func(View) error {
	return func(v View) error {
		deployment := v.Get(webChildren[0], webName)
		if deployment == nil {
			return fmt.Errorf("the Deployment does not exist")
		}
		annotations, _, _ := unstructured.NestedStringMap(deployment.Object, "spec", "template", "metadata", "annotations")
		if annotations[rollout.ConfigMapPrefix+"/settings"] == "" {
			return fmt.Errorf("the pods have not been restarted")
		}
		return Ready(webApps, webName)(v)
	}
}

// rollbackSteps set an image that never starts, and then one that does.
func rollbackSteps() []Step {
	return []Step{webStep("create", goodSpec), {
		Name: "an image that can't be pulled", Converged: rolledBack,
		Do: func(ctx context.Context, w *Client) error {
			w.DataPlane.Set(w.Namespace, webName, testenv.Rollout{
				Image: "nginx:broken", Waiting: "ImagePullBackOff", Message: "no such image", DeadlineExceeded: true,
			})
			return setWebApp(ctx, w, badSpec)
		},
	}, webStep("an image that starts", fixedSpec)}
}

func rolledBack(v View) error {
	app, err := webAppIn(v)
	if err != nil {
		return err
	}
	deployment := v.Get(webChildren[0], webName)
	if deployment == nil {
		return fmt.Errorf("the Deployment does not exist")
	}
	containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	image := containers[0].(map[string]any)["image"]
	if app.Status.ObservedGeneration != app.Generation || app.Status.FailedRevision == "" || app.Status.Image != "nginx:1.25" || image != "nginx:1.25" ||
		app.Status.ReadyReplicas != 1 {
		return fmt.Errorf("not rolled back: the Deployment runs %v, status %+v", image, app.Status)
	}
	return nil
}
