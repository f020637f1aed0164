package faults

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
	"github.com/fettle-dev/fettle/internal/rollout"
)

const (
	stackName     = "shop"
	stackDatabase = "shop-database" // the user's Secret

	stackSpec = `
components:
- name: config
  config: {environment: dev, config: {LEVEL: debug}, target: {historyLimit: 0}, rollout: {debounce: 0s, minInterval: 0s}}
- name: db
  external: {type: PostgreSQL, secretRef: {name: shop-database}}
- name: cache
  cache: {memory: 32Mi}
- name: backend
  webApp: {image: "nginx:1.25"}`
)

var (
	appStacks     = platformv1.GroupVersion.WithResource("appstacks")
	stackChildren = slices.Concat(
		[]schema.GroupVersionResource{webApps, appConfigs, pgSets, pgPods, pgSecrets, configMaps}, webChildren,
	)
)

// appStackScenario creates an AppStack, and changes its last component and one that it depends on.
func appStackScenario(t *testing.T) Scenario {
	changed := strings.NewReplacer("debug", "info", "nginx:1.25", "nginx:1.26").Replace(stackSpec)
	scenario := webScenario(t, "appstack", []Step{
		{Name: "create", Converged: stackRuns("nginx:1.25"), Do: func(ctx context.Context, w *Client) error {
			database := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: stackDatabase, Namespace: w.Namespace},
				StringData: map[string]string{"uri": "postgres://shop:hidden@db.example.com/shop"},
			}
			return errors.Join(w.Create(ctx, database), setStack(ctx, w, stackSpec))
		}},
		{Name: "change", Converged: stackRuns("nginx:1.26"), Do: func(ctx context.Context, w *Client) error { return setStack(ctx, w, changed) }},
	})
	scenario.Primary, scenario.Children = appStacks, stackChildren
	scenario.Background = runStatefulSets
	scenario.Deletion = &Deletion{Object: Key{appStacks, stackName}}
	scenario.Rules = Rules{
		Rotation: rotation, ConvergeTimeout: 2 * time.Minute, Normalize: normalizeStack,
		Impossible: unrepairedInStack, History: startsInOrder,
		DeletedWith: func(v View, k Key) []Key {
			if k.Resource == pgSets {
				return v.Keys(pgPods)
			}
			return nil
		},
	}
	return scenario
}

// startsInOrder finds a WebApp that was created before the cache that it connects to was ready.
func startsInOrder(events []event) error {
	ready := int64(math.MaxInt64)
	for _, e := range events {
		conditions, _, _ := unstructured.NestedSlice(e.Object.Object, "status", "conditions")
		isReady := slices.ContainsFunc(conditions, func(c any) bool {
			condition := c.(map[string]any)
			return condition["type"] == "Ready" && condition["status"] == "True"
		})
		if e.Key.Resource == pgPods && strings.HasPrefix(e.Key.Name, stackName+"-cache-") && isReady {
			ready = min(ready, versionNumber(e))
		}
	}
	for _, e := range events {
		if e.Key.Resource == webApps && e.Type == watch.Added && versionNumber(e) < ready {
			return fmt.Errorf("%s was created before the cache was ready", e.Key)
		}
	}
	return nil
}

// versionNumber orders events of different kinds: all have one etcd.
func versionNumber(e event) int64 {
	n, _ := strconv.ParseInt(e.Object.GetResourceVersion(), 10, 64)
	return n
}

// unrepairedInStack are deletions and changes by other clients without a repair that ends in the same state. Without a garbage collector, the
// children of a deleted WebApp or AppConfig stay. The Secret of a cache is created only once: a new one has another password, for which the
// cache and its clients restart. The children of WebApps and AppConfigs have scenarios of their own.
func unrepairedInStack(p Plan) bool {
	switch p.Target.Resource {
	case webApps, appConfigs:
		return p.Kind == Deleted
	case pgSecrets, configMaps:
		return true
	}
	return p.Target.Name == stackName+"-backend"
}

func stackRuns(image string) func(View) error {
	return func(v View) error {
		d := v.Get(deployments, stackName+"-backend")
		if d == nil {
			return errors.New("the Deployment does not exist")
		}
		containers, _, _ := unstructured.NestedSlice(d.Object, "spec", "template", "spec", "containers")
		if is := containers[0].(map[string]any)["image"]; is != image {
			return fmt.Errorf("the Deployment runs %v", is)
		}
		return Ready(appStacks, stackName)(v)
	}
}

// setStack is a change by a user, which is retried after a conflict with the operator's write.
func setStack(ctx context.Context, w *Client, spec string) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		s := &platformv1.AppStack{ObjectMeta: metav1.ObjectMeta{Name: stackName, Namespace: w.Namespace}}
		err := w.Get(ctx, client.ObjectKeyFromObject(s), s)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		missing := err != nil
		s.Spec = platformv1.AppStackSpec{}
		if err := yaml.UnmarshalStrict([]byte(spec), &s.Spec); err != nil {
			return fmt.Errorf("spec of the scenario: %w", err)
		}
		if missing {
			return w.Create(ctx, s)
		}
		return w.Update(ctx, s)
	})
}

// normalizeStack removes the additions of the cluster to pods, and replaces passwords, versions, and hashes that contain a UID.
func normalizeStack(kind Kind, o *unstructured.Unstructured) {
	switch o.GetKind() {
	case "Pod":
		delete(o.Object, "spec")
		delete(o.Object, "status")
	case "Secret":
		normalizeSecret(o)
	case "AppConfig":
		dependents, _, _ := unstructured.NestedSlice(o.Object, "status", "dependents")
		for _, d := range dependents {
			delete(d.(map[string]any), "hash")
		}
		_ = unstructured.SetNestedSlice(o.Object, dependents, "status", "dependents") // the status is an object
	case "Deployment":
		normalizeVersions(kind, o)
		for _, path := range [][]string{{"metadata", "annotations"}, {"spec", "template", "metadata", "annotations"}} {
			annotations, _, _ := unstructured.NestedStringMap(o.Object, path...)
			for name := range annotations {
				if name == rollout.ConfigPrefix+"/"+stackName+"-config" || strings.HasPrefix(name, rollout.SecretPrefix+"/") {
					annotations[name] = "HASH"
				}
			}
			_ = unstructured.SetNestedStringMap(o.Object, annotations, path...) // likewise
		}
	}
}

// runStatefulSets is the StatefulSet controller and the kubelet of a plan: a pod for each StatefulSet, which is ready at once.
func runStatefulSets(ctx context.Context, namespace string) (func(), error) {
	clientset, err := kubernetes.NewForConfig(env.DataPlane)
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			sets, err := clientset.AppsV1().StatefulSets(namespace).List(ctx, metav1.ListOptions{})
			if err == nil {
				for i := range sets.Items {
					_ = syncSet(ctx, clientset, &sets.Items[i]) // repeated
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return func() { <-ended }, nil
}

func syncSet(ctx context.Context, c kubernetes.Interface, set *k8sappsv1.StatefulSet) error {
	if set.DeletionTimestamp != nil {
		return nil
	}
	pods, revision := c.CoreV1().Pods(set.Namespace), fmt.Sprintf("%s-%d", set.Name, set.Generation)
	pod, err := pods.Get(ctx, set.Name+"-0", metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		if pod, err = pods.Create(ctx, podOfSet(set, revision), metav1.CreateOptions{}); err != nil {
			return err
		}
	case err != nil:
		return err
	case !metav1.IsControlledBy(pod, set), pod.Labels[k8sappsv1.ControllerRevisionHashLabelKey] != revision: // the next call creates it again
		return pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	}
	if len(pod.Status.Conditions) == 0 {
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		if _, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	status := k8sappsv1.StatefulSetStatus{
		ObservedGeneration: set.Generation, Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1, CurrentReplicas: 1, UpdatedReplicas: 1,
		CurrentRevision: revision, UpdateRevision: revision,
	}
	if equality.Semantic.DeepEqual(set.Status, status) {
		return nil
	}
	set.Status = status
	_, err = c.AppsV1().StatefulSets(set.Namespace).UpdateStatus(ctx, set, metav1.UpdateOptions{})
	return err
}

func podOfSet(set *k8sappsv1.StatefulSet, revision string) *corev1.Pod {
	template := set.Spec.Template.DeepCopy()
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Name, pod.Namespace = set.Name+"-0", set.Namespace
	metav1.SetMetaDataLabel(&pod.ObjectMeta, k8sappsv1.ControllerRevisionHashLabelKey, revision)
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, k8sappsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
	return pod
}

func TestStartsInOrder(t *testing.T) {
	at := func(version string, resource schema.GroupVersionResource, name, ready string) event {
		o := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": ready}}}}}
		o.SetResourceVersion(version)
		return event{Key: Key{resource, name}, Type: watch.Added, Object: o}
	}
	pod := func(version, ready string) event { return at(version, pgPods, stackName+"-cache-0", ready) }
	app := at("9", webApps, stackName+"-backend", "False")
	for name, c := range map[string]struct {
		events []event
		fails  bool
	}{
		"after it":           {[]event{app, pod("5", "False"), pod("8", "True")}, false},
		"before it":          {[]event{pod("5", "False"), app, pod("10", "True")}, true},
		"it is never ready":  {[]event{pod("5", "False"), app}, true},
		"another pod is not": {[]event{at("5", pgPods, "other-0", "True"), app}, true},
		"no WebApp":          {[]event{pod("5", "False")}, false},
	} {
		if err := startsInOrder(c.events); (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
	}
}
