package webapp

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1 "k8s.io/api/networking/v1"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/apply"
)

// Kinds of optional APIs.
const (
	kindHTTPRoute      = "HTTPRoute"
	kindServiceMonitor = "ServiceMonitor"
	kindCertificate    = "Certificate"
	kindGateway        = "Gateway"
)

var (
	httpRouteGVK      = schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: kindHTTPRoute}
	serviceMonitorGVK = schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: kindServiceMonitor}
	certificateGVK    = schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: kindCertificate}
	gatewayGVK        = schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: kindGateway}
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
		hosts := make([]any, 0, len(g.Hostnames))
		for _, h := range g.Hostnames {
			hosts = append(hosts, h)
		}
		spec["hostnames"] = hosts
	}
	return optional(app, httpRouteGVK, nil, spec)
}

func serviceMonitor(app *appsv1.WebApp) runtime.ApplyConfiguration {
	m := app.Spec.Monitoring
	match := map[string]any{}
	for k, v := range selector(app) {
		match[k] = v
	}
	return optional(app, serviceMonitorGVK, m.Labels, map[string]any{
		"selector":  map[string]any{"matchLabels": match},
		"endpoints": []any{map[string]any{"port": m.Port, "path": m.Path, "interval": m.Interval}},
	})
}

// optional returns a child whose API may be missing in the cluster and has no Go type here. Fettle's labels override extra.
func optional(app *appsv1.WebApp, gvk schema.GroupVersionKind, extra map[string]string, spec map[string]any) runtime.ApplyConfiguration {
	u := named(gvk, app)
	all := map[string]string{}
	maps.Copy(all, extra)
	maps.Copy(all, labels(app))
	u.SetLabels(all)
	u.Object["spec"] = spec
	return client.ApplyConfigurationFromUnstructured(u)
}

func named(gvk schema.GroupVersionKind, app *appsv1.WebApp) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(app.Namespace)
	u.SetName(app.Name)
	return u
}
