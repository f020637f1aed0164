package webapp

import (
	"maps"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	networkingv1 "k8s.io/api/networking/v1"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/optionalapi"
)

func ingress(app *appsv1.WebApp) *networkingv1ac.IngressApplyConfiguration {
	in := app.Spec.Ingress
	annotations := map[string]string{}
	maps.Copy(annotations, in.Annotations)
	if in.CertIssuer != nil {
		annotations[issuerAnnotation(in.CertIssuer.Kind)] = in.CertIssuer.Name
	}
	spec := networkingv1ac.IngressSpec().WithRules(networkingv1ac.IngressRule().
		WithHost(in.Host).
		WithHTTP(networkingv1ac.HTTPIngressRuleValue().WithPaths(networkingv1ac.HTTPIngressPath().
			WithPath(in.Path).
			WithPathType(in.PathType).
			WithBackend(networkingv1ac.IngressBackend().WithService(networkingv1ac.IngressServiceBackend().
				WithName(app.Name).
				WithPort(networkingv1ac.ServiceBackendPort().WithName(mainPort)))))))
	if in.ClassName != "" {
		spec.WithIngressClassName(in.ClassName)
	}
	if secret := tlsSecret(app); secret != "" {
		spec.WithTLS(networkingv1ac.IngressTLS().WithHosts(in.Host).WithSecretName(secret))
	}
	return networkingv1ac.Ingress(app.Name, app.Namespace).
		WithLabels(labels(app)).
		WithAnnotations(annotations).
		WithSpec(spec)
}

// issuerAnnotation is the annotation by which cert-manager's ingress-shim finds the issuer.
func issuerAnnotation(kind string) string {
	if kind == "ClusterIssuer" {
		return "cert-manager.io/cluster-issuer"
	}
	return "cert-manager.io/issuer"
}

func tlsSecret(app *appsv1.WebApp) string {
	if app.Spec.Ingress.CertIssuer != nil {
		return app.Name + "-tls"
	}
	return app.Spec.Ingress.TLSSecretName
}

// wantsNetworkPolicy reports whether a NetworkPolicy is wanted.
func wantsNetworkPolicy(app *appsv1.WebApp) bool {
	n := app.Spec.NetworkPolicy
	return n != nil && (n.Enabled == nil || *n.Enabled)
}

func networkPolicy(app *appsv1.WebApp) *networkingv1ac.NetworkPolicyApplyConfiguration {
	rule := networkingv1ac.NetworkPolicyIngressRule()
	for _, p := range containerPorts(app) {
		rule.WithPorts(networkingv1ac.NetworkPolicyPort().WithProtocol("TCP").WithPort(intstr.FromString(p.name)))
	}
	from := app.Spec.NetworkPolicy.From
	for _, peer := range from {
		rule.WithFrom(apply.Convert[networkingv1ac.NetworkPolicyPeerApplyConfiguration](peer))
	}
	if len(from) == 0 {
		rule.WithFrom(networkingv1ac.NetworkPolicyPeer().WithPodSelector(metav1ac.LabelSelector()))
	}
	return networkingv1ac.NetworkPolicy(app.Name, app.Namespace).
		WithLabels(labels(app)).
		WithSpec(networkingv1ac.NetworkPolicySpec().
			WithPodSelector(metav1ac.LabelSelector().WithMatchLabels(selector(app))).
			WithPolicyTypes(networkingv1.PolicyTypeIngress).
			WithIngress(rule))
}

func httpRoute(app *appsv1.WebApp) runtime.ApplyConfiguration {
	g := app.Spec.Gateway
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
			"matches":     []any{map[string]any{"path": map[string]any{"type": "PathPrefix", "value": g.Path}}},
			"backendRefs": []any{map[string]any{"name": app.Name, "port": int64(servicePort(app))}},
		}},
	}
	if len(g.Hostnames) > 0 {
		spec["hostnames"] = optionalapi.Strings(g.Hostnames)
	}
	return optionalapi.HTTPRoute.Child(app, labels(app), nil, spec)
}

func serviceMonitor(app *appsv1.WebApp) runtime.ApplyConfiguration {
	m := app.Spec.Monitoring
	return optionalapi.ServiceMonitor.Child(app, labels(app), m.Labels, map[string]any{
		"selector":  map[string]any{"matchLabels": optionalapi.StringMap(selector(app))},
		"endpoints": []any{map[string]any{"port": m.Port, "path": m.Path, "interval": m.Interval}},
	})
}
