package webapp

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/optionalapi"
)

// observePublication reads the objects of spec.ingress and spec.gateway from the cache.
func (r *Reconciler) observePublication(ctx context.Context, app *appsv1.WebApp, missing map[string]bool) (publication, error) {
	var p publication
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name}}
	found, current, err := r.Applier.Get(ctx, service)
	if err != nil {
		return p, fmt.Errorf("get Service: %w", err)
	}
	if serviceExists(app, service, found, current) {
		p.service = service
	}
	if app.Spec.Ingress != nil {
		if err := r.observeIngress(ctx, app, missing, &p); err != nil {
			return p, err
		}
	}
	if app.Spec.Gateway != nil && !missing[optionalapi.HTTPRoute.Kind] {
		if err := r.observeRoute(ctx, app, missing, &p); err != nil {
			return p, err
		}
	}
	return p, nil
}

// serviceExists reports whether the Service exists and belongs to app. A Service that was just written counts although the cache
// does not show it yet. A status without it would cost another write.
func serviceExists(app *appsv1.WebApp, service *corev1.Service, found, current bool) bool {
	return !current || found && owned(app, service)
}

func (r *Reconciler) observeIngress(ctx context.Context, app *appsv1.WebApp, missing map[string]bool, p *publication) error {
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name}}
	found, _, err := r.Applier.Get(ctx, ingress)
	if err != nil {
		return fmt.Errorf("get Ingress: %w", err)
	}
	if found && owned(app, ingress) {
		p.ingress = ingress
	}
	want := app.Spec.Ingress
	if want.ClassName != "" {
		class := &metav1.PartialObjectMetadata{}
		class.SetGroupVersionKind(networkingv1.SchemeGroupVersion.WithKind("IngressClass"))
		err := r.Client.Get(ctx, client.ObjectKey{Name: want.ClassName}, class)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("get IngressClass %q: %w", want.ClassName, err)
		}
		p.classMissing = err != nil
	}
	if want.TLSSecretName != "" && r.config.watchSecrets { // its contents are of no interest, and else it would have to be read with them
		version, _, err := r.config.find(ctx, kindSecret, client.ObjectKey{Namespace: app.Namespace, Name: want.TLSSecretName})
		if err != nil {
			return err
		}
		p.secretMissing = version == ""
	}
	if want.CertIssuer != nil && !missing[optionalapi.Certificate.Kind] {
		return r.observeCertificate(ctx, app, p)
	}
	return nil
}

func (r *Reconciler) observeCertificate(ctx context.Context, app *appsv1.WebApp, p *publication) error {
	u := optionalapi.Certificate.Object(app)
	u.SetName(tlsSecret(app)) // as cert-manager's ingress-shim names it
	if err := r.apis.Objects.Get(ctx, client.ObjectKeyFromObject(u), u, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("get Certificate %q: %w", u.GetName(), err)
	}
	p.certificate = &certificate{}
	return decode(u, p.certificate)
}

// decode converts u into a type with the needed part of its kind.
func decode(u *unstructured.Unstructured, out any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		return fmt.Errorf("read %s %q: %w", u.GetKind(), u.GetName(), err)
	}
	return nil
}

func (r *Reconciler) observeRoute(ctx context.Context, app *appsv1.WebApp, missing map[string]bool, p *publication) error {
	u := optionalapi.HTTPRoute.Object(app)
	found, current, err := r.Applier.Get(ctx, u)
	if err != nil {
		return fmt.Errorf("get HTTPRoute: %w", err)
	}
	if found && current && owned(app, u) {
		p.route = &route{}
		if err := decode(u, p.route); err != nil {
			return err
		}
	}
	if missing[optionalapi.Gateway.Kind] {
		return nil
	}
	// Listed, since a cache that is restricted to namespaces returns an error for a name in another namespace.
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(optionalapi.Gateway.GroupVersionKind)
	if err := r.apis.Objects.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list Gateways: %w", err)
	}
	for i := range list.Items {
		if !namesGateway(app, &list.Items[i]) {
			continue
		}
		var g gateway
		if err := decode(&list.Items[i], &g); err != nil {
			return err
		}
		p.gateways = append(p.gateways, g)
	}
	return nil
}

// namesGateway reports whether app's route names the Gateway.
func namesGateway(app *appsv1.WebApp, g client.Object) bool {
	for _, ref := range app.Spec.Gateway.ParentRefs {
		if sameGateway(app, appsv1.GatewayRef{Name: ref.Name, Namespace: ref.Namespace}, appsv1.GatewayRef{Name: g.GetName(), Namespace: g.GetNamespace()}) {
			return true
		}
	}
	return false
}
