// Package optionalapi finds out which of the APIs that a cluster may lack are served, and watches their objects while they are. It reads
// the definitions from the cache, so that an API can come and go while the operator runs.
package optionalapi

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// API is an API that a cluster may lack.
type API struct {
	// Definition is the name of its CustomResourceDefinition.
	Definition string
	schema.GroupVersionKind
	// Concerned maps an object to the owners that depend on it. It is nil if owners have children of the kind. Children are watched
	// also if no owner needs the API, to find those of an earlier spec.
	Concerned handler.TypedMapFunc[*unstructured.Unstructured, reconcile.Request]
	// Predicates select the events of its objects.
	Predicates []predicate.TypedPredicate[*unstructured.Unstructured]
}

// The APIs that Fettle uses if they are there.
var (
	HTTPRoute      = of("gateway.networking.k8s.io", "HTTPRoute", "httproutes")
	Gateway        = of("gateway.networking.k8s.io", "Gateway", "gateways")
	Certificate    = of("cert-manager.io", "Certificate", "certificates")
	ServiceMonitor = of("monitoring.coreos.com", "ServiceMonitor", "servicemonitors")
	PodMonitor     = of("monitoring.coreos.com", "PodMonitor", "podmonitors")
	PrometheusRule = of("monitoring.coreos.com", "PrometheusRule", "prometheusrules")
)

func of(group, kind, plural string) API {
	return API{Definition: plural + "." + group, GroupVersionKind: schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}}
}

// Object returns an object of the API with the namespace and name of owner. These kinds have no Go type here.
func (api API) Object(owner client.Object) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(api.GroupVersionKind)
	u.SetNamespace(owner.GetNamespace())
	u.SetName(owner.GetName())
	return u
}

// Child returns a desired child of owner with its name. Fettle's labels override extra.
func (api API) Child(owner client.Object, labels, extra map[string]string, spec map[string]any) runtime.ApplyConfiguration {
	u := api.Object(owner)
	all := map[string]string{}
	maps.Copy(all, extra)
	maps.Copy(all, labels)
	u.SetLabels(all)
	u.Object["spec"] = spec
	return client.ApplyConfigurationFromUnstructured(u)
}

// Strings are the values of a list in the spec of an object without a Go type.
func Strings(values []string) []any {
	list := make([]any, 0, len(values))
	for _, v := range values {
		list = append(list, v)
	}
	return list
}

// StringMap is a map in such a spec.
func StringMap(values map[string]string) map[string]any {
	m := map[string]any{}
	for k, v := range values {
		m[k] = v
	}
	return m
}

// APIs are the optional APIs of a controller. It is safe for concurrent use.
type APIs struct {
	// Objects reads the objects of the APIs from the cache.
	Objects client.Reader

	mgr        ctrl.Manager
	owner      client.Object
	apis       []API
	controller controller.Controller

	mu      sync.Mutex
	watched map[schema.GroupVersionKind]bool
}

// New returns the optional APIs of the controller of owner's kind.
func New(mgr ctrl.Manager, owner client.Object, apis ...API) *APIs {
	return &APIs{Objects: mgr.GetCache(), mgr: mgr, owner: owner, apis: apis, watched: map[schema.GroupVersionKind]bool{}}
}

// Trigger reconciles the owners that need an API when its definition changes.
func (a *APIs) Trigger(b *builder.Builder, needing func(ctx context.Context, kind string) []reconcile.Request) {
	ofDefinition := func(o client.Object) int {
		return slices.IndexFunc(a.apis, func(api API) bool { return api.Definition == o.GetName() })
	}
	b.WatchesMetadata(&apiextensionsv1.CustomResourceDefinition{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		if err := a.dropGone(ctx); err != nil { // also if no owner needs the API
			log.FromContext(ctx).Error(err, "failed to stop watching removed APIs")
		}
		return needing(ctx, a.apis[ofDefinition(o)].Kind)
	}), builder.WithPredicates(
		predicate.NewPredicateFuncs(func(o client.Object) bool { return ofDefinition(o) >= 0 }), predicate.GenerationChangedPredicate{}))
}

// WatchWith makes c watch the objects of the APIs.
func (a *APIs) WatchWith(c controller.Controller) { a.controller = c }

// Served says which APIs can be used.
type Served struct {
	// Missing are the kinds that the cluster does not serve.
	Missing map[string]bool
	// Retry is the delay before the next check of a needed API that is defined but not served, of which no watch tells; 0 if there is
	// none.
	Retry time.Duration
}

// Find returns which APIs are served.
func (a *APIs) Find(ctx context.Context, needed []string) (Served, error) {
	found := Served{Missing: map[string]bool{}}
	for _, api := range a.apis {
		definition, err := a.definition(ctx, api)
		if err == nil && (api.Concerned == nil || slices.Contains(needed, api.Kind)) {
			err = a.watch(api)
		}
		switch {
		case apierrors.IsNotFound(err):
			found.Missing[api.Kind] = true
		case meta.IsNoMatchError(err):
			found.Missing[api.Kind] = true
			if slices.Contains(needed, api.Kind) {
				found.Retry = retry(time.Since(definition.CreationTimestamp.Time))
			}
		case err != nil:
			return found, fmt.Errorf("look for the API of %s: %w", api.Kind, err)
		}
	}
	return found, a.unwatch(ctx, found.Missing)
}

// retry returns a short delay just after the definition was created, and growing delays later, since the definition may have the wrong
// version.
func retry(age time.Duration) time.Duration { return min(max(age, time.Second), 10*time.Minute) }

// definition reads the definition of an API. A definition that is being deleted counts as not found.
func (a *APIs) definition(ctx context.Context, api API) (*metav1.PartialObjectMetadata, error) {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	err := a.mgr.GetClient().Get(ctx, client.ObjectKey{Name: api.Definition}, crd)
	if err == nil && crd.DeletionTimestamp != nil {
		err = apierrors.NewNotFound(apiextensionsv1.Resource("customresourcedefinitions"), api.Definition)
	}
	return crd, err
}

// watch starts watching the objects of an API, once.
func (a *APIs) watch(api API) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.watched[api.GroupVersionKind] {
		return nil
	}
	if _, err := a.mgr.GetRESTMapper().RESTMapping(api.GroupKind(), api.Version); err != nil {
		return err
	}
	wake := handler.TypedEnqueueRequestForOwner[*unstructured.Unstructured](a.mgr.GetScheme(), a.mgr.GetRESTMapper(), a.owner, handler.OnlyControllerOwner())
	if api.Concerned != nil {
		wake = handler.TypedEnqueueRequestsFromMapFunc(api.Concerned)
	}
	if err := a.controller.Watch(source.Kind(a.mgr.GetCache(), api.object(), wake, api.Predicates...)); err != nil {
		return fmt.Errorf("watch %s: %w", api.Kind, err)
	}
	a.watched[api.GroupVersionKind] = true
	return nil
}

// dropGone stops the watches of APIs whose definition was deleted. It starts no watch: the controller waits for its event handlers
// before it accepts further watches.
func (a *APIs) dropGone(ctx context.Context) error {
	missing := map[string]bool{}
	for _, api := range a.apis {
		if _, err := a.definition(ctx, api); apierrors.IsNotFound(err) {
			missing[api.Kind] = true
		} else if err != nil {
			return fmt.Errorf("look for the API of %s: %w", api.Kind, err)
		}
	}
	return a.unwatch(ctx, missing)
}

// unwatch stops the watches of deleted APIs, which would otherwise be retried forever. It includes watches that a reconcile started
// while it still saw the API.
func (a *APIs) unwatch(ctx context.Context, missing map[string]bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, api := range a.apis {
		// Other controllers share the watch of a kind that is no child: it is stopped only if it was started here.
		if !missing[api.Kind] || (api.Concerned != nil && !a.watched[api.GroupVersionKind]) {
			continue
		}
		// A cache that is restricted to namespaces asks for the API first, and does not find it.
		if err := a.mgr.GetCache().RemoveInformer(ctx, api.object()); err != nil && !meta.IsNoMatchError(err) {
			return fmt.Errorf("stop watching %s: %w", api.Kind, err)
		}
		delete(a.watched, api.GroupVersionKind)
	}
	return nil
}

func (api API) object() *unstructured.Unstructured { return api.Object(&unstructured.Unstructured{}) }
