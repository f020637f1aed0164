package webapp

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
)

// optionalCRDs are the APIs that a cluster may lack, by the name of their CustomResourceDefinition.
var optionalCRDs = map[string]schema.GroupVersionKind{
	"httproutes.gateway.networking.k8s.io":  httpRouteGVK,
	"servicemonitors.monitoring.coreos.com": serviceMonitorGVK,
	"certificates.cert-manager.io":          certificateGVK,
	"gateways.gateway.networking.k8s.io":    gatewayGVK,
}

// ownedOptional are the optional APIs of which a WebApp has children. The others are only watched.
var ownedOptional = []schema.GroupVersionKind{httpRouteGVK, serviceMonitorGVK}

func isOptionalCRD(o client.Object) bool {
	_, ok := optionalCRDs[o.GetName()]
	return ok
}

// optionalKinds are the kinds of optional APIs that app uses.
func optionalKinds(app *appsv1.WebApp) []string {
	var kinds []string
	if app.Spec.Gateway != nil {
		kinds = append(kinds, kindHTTPRoute, kindGateway)
	}
	if app.Spec.Monitoring != nil {
		kinds = append(kinds, kindServiceMonitor)
	}
	if app.Spec.Ingress != nil && app.Spec.Ingress.CertIssuer != nil {
		kinds = append(kinds, kindCertificate)
	}
	return kinds
}

// optionalAPIs finds out which optional APIs the cluster serves, from the cached definitions, and watches their objects.
type optionalAPIs struct {
	reader     client.Reader
	cache      cache.Cache
	controller controller.Controller
	mgr        ctrl.Manager
	// concerned maps an object that is no child of a WebApp to the WebApps that depend on it, by kind.
	concerned map[string]handler.TypedMapFunc[*unstructured.Unstructured, reconcile.Request]

	mu      sync.Mutex
	watched map[schema.GroupVersionKind]bool
}

func newOptionalAPIs(
	mgr ctrl.Manager, c controller.Controller, concerned map[string]handler.TypedMapFunc[*unstructured.Unstructured, reconcile.Request],
) *optionalAPIs {
	return &optionalAPIs{
		reader: mgr.GetClient(), cache: mgr.GetCache(), controller: c, mgr: mgr, concerned: concerned,
		watched: map[schema.GroupVersionKind]bool{},
	}
}

// served says which optional APIs can be used.
type served struct {
	// missing are the kinds that the cluster does not serve.
	missing map[string]bool
	// retry is the delay before the next check of an API that is defined but not served; 0 if there is none.
	retry time.Duration
}

// find returns which optional APIs are served. retry concerns only the needed kinds.
func (a *optionalAPIs) find(ctx context.Context, needed []string) (served, error) {
	found := served{missing: map[string]bool{}}
	for name, gvk := range optionalCRDs {
		crd, err := a.definition(ctx, name)
		if err == nil && (slices.Contains(ownedOptional, gvk) || slices.Contains(needed, gvk.Kind)) {
			err = a.watch(gvk)
		}
		switch {
		case apierrors.IsNotFound(err):
			found.missing[gvk.Kind] = true
		case meta.IsNoMatchError(err):
			found.missing[gvk.Kind] = true
			if slices.Contains(needed, gvk.Kind) {
				found.retry = retryServed(time.Since(crd.CreationTimestamp.Time))
			}
		case err != nil:
			return found, fmt.Errorf("look for the API of %s: %w", gvk.Kind, err)
		}
	}
	return found, a.unwatch(ctx, found.missing)
}

// definition reads the definition of an API. A definition that is being deleted counts as not found.
func (a *optionalAPIs) definition(ctx context.Context, name string) (*metav1.PartialObjectMetadata, error) {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	err := a.reader.Get(ctx, client.ObjectKey{Name: name}, crd)
	if err == nil && crd.DeletionTimestamp != nil {
		err = apierrors.NewNotFound(apiextensionsv1.Resource("customresourcedefinitions"), name)
	}
	return crd, err
}

// dropGone stops the watches of APIs whose definition was deleted. It starts no watch: the controller waits for its event handlers
// before it accepts further watches.
func (a *optionalAPIs) dropGone(ctx context.Context) error {
	missing := map[string]bool{}
	for name, gvk := range optionalCRDs {
		if _, err := a.definition(ctx, name); apierrors.IsNotFound(err) {
			missing[gvk.Kind] = true
		} else if err != nil {
			return fmt.Errorf("look for the API of %s: %w", gvk.Kind, err)
		}
	}
	return a.unwatch(ctx, missing)
}

// retryServed returns a short delay just after the definition was created, and growing delays later, since the definition may have
// the wrong version.
func retryServed(age time.Duration) time.Duration {
	return min(max(age, time.Second), 10*time.Minute)
}

// watch starts watching the objects of an API, once.
func (a *optionalAPIs) watch(gvk schema.GroupVersionKind) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.watched[gvk] {
		return nil
	}
	if _, err := a.mgr.GetRESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version); err != nil {
		return err
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(gvk)
	wake := handler.TypedEnqueueRequestForOwner[*unstructured.Unstructured](
		a.mgr.GetScheme(), a.mgr.GetRESTMapper(), &appsv1.WebApp{}, handler.OnlyControllerOwner())
	if concerned := a.concerned[gvk.Kind]; concerned != nil {
		wake = handler.TypedEnqueueRequestsFromMapFunc(concerned)
	}
	if err := a.controller.Watch(source.Kind(a.cache, obj, wake, servingChanged(gvk.Kind)...)); err != nil {
		return fmt.Errorf("watch %s: %w", gvk.Kind, err)
	}
	a.watched[gvk] = true
	return nil
}

// servingChanged drops updates of a Gateway that only change the number of attached routes in its status.
func servingChanged(kind string) []predicate.TypedPredicate[*unstructured.Unstructured] {
	if kind != kindGateway {
		return nil
	}
	return []predicate.TypedPredicate[*unstructured.Unstructured]{predicate.TypedFuncs[*unstructured.Unstructured]{
		UpdateFunc: func(e event.TypedUpdateEvent[*unstructured.Unstructured]) bool {
			was, _, _ := unstructured.NestedSlice(e.ObjectOld.Object, "status", "addresses")
			is, _, _ := unstructured.NestedSlice(e.ObjectNew.Object, "status", "addresses")
			return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || !equality.Semantic.DeepEqual(was, is)
		},
	}}
}

// unwatch stops the watches of deleted APIs, which would otherwise be retried forever. It includes watches that a reconcile started
// while it still saw the API.
func (a *optionalAPIs) unwatch(ctx context.Context, missing map[string]bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, gvk := range optionalCRDs {
		// Other controllers share the watch of a kind that is no child: it is stopped only if it was started here.
		if !missing[gvk.Kind] || (!slices.Contains(ownedOptional, gvk) && !a.watched[gvk]) {
			continue
		}
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(gvk)
		// A cache that is restricted to namespaces asks for the API first, and does not find it.
		if err := a.cache.RemoveInformer(ctx, obj); err != nil && !meta.IsNoMatchError(err) {
			return fmt.Errorf("stop watching %s: %w", gvk.Kind, err)
		}
		delete(a.watched, gvk)
	}
	return nil
}
