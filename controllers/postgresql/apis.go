package postgresql

import (
	"context"
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

// optionalCRDs are the definitions of the kinds that a PostgreSQL may have children of, and that a cluster may lack.
var optionalCRDs = map[string]schema.GroupVersionKind{
	"podmonitors.monitoring.coreos.com":     podMonitorGVK,
	"prometheusrules.monitoring.coreos.com": alertRulesGVK,
	"certificates.cert-manager.io":          certificateGVK,
}

func isOptionalCRD(o client.Object) bool {
	_, ok := optionalCRDs[o.GetName()]
	return ok
}

// optionalAPIs knows which of those kinds the API server serves, from the definitions in the cache, and
// watches the children of those kinds while it does.
type optionalAPIs struct {
	mgr        ctrl.Manager
	controller controller.Controller

	mu      sync.Mutex
	watched map[schema.GroupVersionKind]bool
}

func newOptionalAPIs(mgr ctrl.Manager, c controller.Controller) *optionalAPIs {
	return &optionalAPIs{mgr: mgr, controller: c, watched: map[schema.GroupVersionKind]bool{}}
}

// missing returns the kinds that are not served, with true for those that are about to be. A kind that no spec asks for is
// watched too, to find children of an earlier spec.
func (a *optionalAPIs) missing(ctx context.Context) (map[schema.GroupVersionKind]bool, error) {
	missing := map[schema.GroupVersionKind]bool{}
	for name, gvk := range optionalCRDs {
		defined, err := a.defined(ctx, name)
		if err != nil {
			return nil, err
		}
		if defined {
			err = a.watch(gvk)
		}
		switch {
		case !defined, meta.IsNoMatchError(err):
			missing[gvk] = defined
		case err != nil:
			return nil, err
		}
	}
	return missing, nil
}

// defined reads the definition of a kind. One that is being deleted counts as none.
func (a *optionalAPIs) defined(ctx context.Context, name string) (bool, error) {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	err := a.mgr.GetClient().Get(ctx, client.ObjectKey{Name: name}, crd)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for the API %s: %w", name, err)
	}
	return crd.DeletionTimestamp == nil, nil
}

// watch starts to watch the children of a kind, once.
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
	owner := handler.TypedEnqueueRequestForOwner[*unstructured.Unstructured](
		a.mgr.GetScheme(), a.mgr.GetRESTMapper(), &databasev1alpha1.PostgreSQL{}, handler.OnlyControllerOwner())
	if err := a.controller.Watch(source.Kind(a.mgr.GetCache(), obj, owner)); err != nil {
		return fmt.Errorf("watch %s: %w", gvk.Kind, err)
	}
	a.watched[gvk] = true
	return nil
}

// dropGone stops the watches of kinds whose definition is gone, which would else be tried for ever.
func (a *optionalAPIs) dropGone(ctx context.Context) error {
	for name, gvk := range optionalCRDs {
		defined, err := a.defined(ctx, name)
		if err != nil {
			return err
		}
		if defined {
			continue
		}
		a.mu.Lock()
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(gvk)
		err = a.mgr.GetCache().RemoveInformer(ctx, obj)
		delete(a.watched, gvk)
		a.mu.Unlock()
		if err != nil && !meta.IsNoMatchError(err) {
			return fmt.Errorf("stop watching %s: %w", gvk.Kind, err)
		}
	}
	return nil
}
