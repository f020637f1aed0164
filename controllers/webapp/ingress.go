package webapp

import (
	"cmp"
	"maps"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/optionalapi"
)

func ingress(app *appsv1.WebApp) runtime.ApplyConfiguration {
	in := app.Spec.Ingress
	annotations := map[string]string{}
	maps.Copy(annotations, in.Annotations)
	if in.CertIssuer != nil {
		annotations[issuerAnnotation(in.CertIssuer.Kind)] = in.CertIssuer.Name
	}
	spec := networkingv1ac.IngressSpec()
	for _, h := range ingressHosts(app) {
		rule := networkingv1ac.HTTPIngressRuleValue()
		for _, p := range h.Paths {
			rule.WithPaths(networkingv1ac.HTTPIngressPath().
				WithPath(p.Path).
				WithPathType(p.PathType).
				WithBackend(networkingv1ac.IngressBackend().WithService(networkingv1ac.IngressServiceBackend().
					WithName(app.Name).
					WithPort(networkingv1ac.ServiceBackendPort().WithName(mainPort)))))
		}
		spec.WithRules(networkingv1ac.IngressRule().WithHost(h.Host).WithHTTP(rule))
	}
	if in.ClassName != "" {
		spec.WithIngressClassName(in.ClassName)
	}
	for _, secret := range tlsSecrets(app) {
		tls := networkingv1ac.IngressTLS().WithSecretName(secret)
		for _, h := range ingressHosts(app) {
			if h.TLSSecretName == secret {
				tls.WithHosts(h.Host)
			}
		}
		spec.WithTLS(tls)
	}
	return networkingv1ac.Ingress(app.Name, app.Namespace).
		WithLabels(labels(app)).
		WithAnnotations(annotations).
		WithSpec(spec)
}

// ingressHosts are all hosts of the Ingress, in the order of the spec, each with its paths and the Secret of its certificate.
func ingressHosts(app *appsv1.WebApp) []appsv1.WebAppHost {
	in := app.Spec.Ingress
	first := appsv1.WebAppHost{Host: in.Host, TLSSecretName: tlsSecret(app)}
	first.Paths = append([]appsv1.WebAppPath{{Path: in.Path, PathType: in.PathType}}, in.ExtraPaths...)
	hosts := []appsv1.WebAppHost{first}
	for _, h := range in.ExtraHosts {
		if len(h.Paths) == 0 {
			h.Paths = []appsv1.WebAppPath{{Path: "/", PathType: networkingv1.PathTypePrefix}}
		}
		h.TLSSecretName = cmp.Or(h.TLSSecretName, first.TLSSecretName)
		hosts = append(hosts, h)
	}
	return hosts
}

// tlsSecrets are the Secrets with the certificates of the Ingress, each once, in the order of the hosts.
func tlsSecrets(app *appsv1.WebApp) []string {
	var secrets []string
	for _, h := range ingressHosts(app) {
		if h.TLSSecretName != "" && !slices.Contains(secrets, h.TLSSecretName) {
			secrets = append(secrets, h.TLSSecretName)
		}
	}
	return secrets
}

// issuerAnnotation is the annotation by which cert-manager's ingress-shim finds the issuer.
func issuerAnnotation(kind string) string {
	if kind == "ClusterIssuer" {
		return "cert-manager.io/cluster-issuer"
	}
	return "cert-manager.io/issuer"
}

// tlsSecret is the Secret with the certificate of the hosts that name no other; "" without TLS.
func tlsSecret(app *appsv1.WebApp) string {
	if app.Spec.Ingress.CertIssuer != nil {
		return app.Name + "-tls"
	}
	return app.Spec.Ingress.TLSSecretName
}

func httpRoute(app *appsv1.WebApp) runtime.ApplyConfiguration {
	g := app.Spec.Gateway
	var matches []any
	for _, path := range append([]string{g.Path}, g.ExtraPaths...) {
		matches = append(matches, map[string]any{"path": map[string]any{"type": "PathPrefix", "value": path}})
	}
	parents := make([]any, 0, len(g.ParentRefs))
	for _, p := range g.ParentRefs {
		parent := map[string]any{"name": p.Name}
		if p.Namespace != "" {
			parent["namespace"] = p.Namespace
		}
		if p.SectionName != "" {
			parent["sectionName"] = p.SectionName
		}
		parents = append(parents, parent)
	}
	spec := map[string]any{
		"parentRefs": parents,
		"rules": []any{map[string]any{
			"matches":     matches,
			"backendRefs": []any{map[string]any{"name": app.Name, "port": int64(servicePort(app))}},
		}},
	}
	if len(g.Hostnames) > 0 {
		spec["hostnames"] = optionalapi.Strings(g.Hostnames)
	}
	return optionalapi.HTTPRoute.Child(app, labels(app), nil, spec)
}
