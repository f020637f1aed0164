package webapp

import (
	"context"
	"fmt"
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
)

// optionalCRDs are the APIs that a cluster may lack, by the name of their definition.
var optionalCRDs = map[string]schema.GroupVersionKind{
	"httproutes.gateway.networking.k8s.io":  httpRouteGVK,
	"servicemonitors.monitoring.coreos.com": serviceMonitorGVK,
	"certificates.cert-manager.io":          {Group: "cert-manager.io", Version: "v1", Kind: kindCertificate},
}

// ownedOptional are those of them that a WebApp has children of.
var ownedOptional = []schema.GroupVersionKind{httpRouteGVK, serviceMonitorGVK}

func isOptionalCRD(o client.Object) bool {
	_, ok := optionalCRDs[o.GetName()]
	return ok
}

// optionalKinds are the kinds of optional APIs that app asks for.
func optionalKinds(app *appsv1.WebApp) []string {
	var kinds []string
	if app.Spec.Gateway != nil {
		kinds = append(kinds, kindHTTPRoute)
	}
	if app.Spec.Monitoring != nil {
		kinds = append(kinds, kindServiceMonitor)
	}
	if app.Spec.Ingress != nil && app.Spec.Ingress.CertIssuer != nil {
		kinds = append(kinds, kindCertificate)
	}
	return kinds
}

// optionalAPIs knows which optional APIs the cluster serves, from the definitions in the cache, and watches
// the children of those that it does.
type optionalAPIs struct {
	reader     client.Reader
	cache      cache.Cache
	controller controller.Controller
	mgr        ctrl.Manager

	mu      sync.Mutex
	watched map[schema.GroupVersionKind]bool
}

func newOptionalAPIs(mgr ctrl.Manager, c controller.Controller) *optionalAPIs {
	return &optionalAPIs{
		reader: mgr.GetClient(), cache: mgr.GetCache(), controller: c, mgr: mgr,
		watched: map[schema.GroupVersionKind]bool{},
	}
}

// missing returns the kinds that the cluster does not serve.
func (a *optionalAPIs) missing(ctx context.Context) (map[string]bool, error) {
	missing := map[string]bool{}
	for name, gvk := range optionalCRDs {
		crd := &metav1.PartialObjectMetadata{}
		crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		switch err := a.reader.Get(ctx, client.ObjectKey{Name: name}, crd); {
		case apierrors.IsNotFound(err):
			missing[gvk.Kind] = true
		case err != nil:
			return nil, fmt.Errorf("look for the API of %s: %w", gvk.Kind, err)
		case slices.Contains(ownedOptional, gvk):
			if err := a.watch(gvk); err != nil {
				return nil, err
			}
		}
	}
	return missing, a.unwatch(ctx, missing)
}

// watch starts to watch the children of an API, once.
func (a *optionalAPIs) watch(gvk schema.GroupVersionKind) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.watched[gvk] {
		return nil
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(gvk)
	owner := handler.TypedEnqueueRequestForOwner[*unstructured.Unstructured](
		a.mgr.GetScheme(), a.mgr.GetRESTMapper(), &appsv1.WebApp{}, handler.OnlyControllerOwner())
	if err := a.controller.Watch(source.Kind(a.cache, obj, owner)); err != nil {
		return fmt.Errorf("watch %s: %w", gvk.Kind, err)
	}
	a.watched[gvk] = true
	return nil
}

// unwatch stops the watches of APIs that are gone, which would else be tried for ever.
func (a *optionalAPIs) unwatch(ctx context.Context, missing map[string]bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for gvk := range a.watched {
		if !missing[gvk.Kind] {
			continue
		}
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(gvk)
		if err := a.cache.RemoveInformer(ctx, obj); err != nil {
			return fmt.Errorf("stop watching %s: %w", gvk.Kind, err)
		}
		delete(a.watched, gvk)
	}
	return nil
}
