package webapp

import (
	"cmp"
	"fmt"
	"net"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
)

// gateway is the part of a Gateway that determines the URL of a route.
type gateway struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Listeners []listener `json:"listeners"`
	} `json:"spec"`
	Status struct {
		Addresses []struct {
			Value string `json:"value"`
		} `json:"addresses"`
	} `json:"status"`
}

type listener struct {
	Name          string `json:"name"`
	Hostname      string `json:"hostname"`
	Port          int32  `json:"port"`
	Protocol      string `json:"protocol"`
	AllowedRoutes struct {
		Namespaces struct {
			From     string                `json:"from"`
			Selector *metav1.LabelSelector `json:"selector"`
		} `json:"namespaces"`
	} `json:"allowedRoutes"`
}

const schemeHTTP, schemeHTTPS = "http", "https"

// url is the address of the application; "" if it is unknown.
func url(app *appsv1.WebApp, in inputs, seen observed) string {
	if app.Spec.Ingress == nil && app.Spec.Gateway == nil {
		return serviceURL(app, seen.publication.service)
	}
	if published(app, in, seen).status != metav1.ConditionTrue {
		return ""
	}
	if i := app.Spec.Ingress; i != nil && !wildcard(i.Host) {
		scheme := schemeHTTP
		if tlsSecret(app) != "" {
			scheme = schemeHTTPS
		}
		return address(scheme, i.Host, 0) + i.Path
	}
	if app.Spec.Gateway == nil {
		return ""
	}
	for _, scheme := range []string{schemeHTTPS, schemeHTTP} {
		if at := gatewayURL(app, in, seen.publication.gateways, scheme); at != "" {
			return at + app.Spec.Gateway.Path
		}
	}
	return ""
}

// serviceURL is the URL of the load balancer if the spec asks for one, otherwise the URL inside the cluster.
func serviceURL(app *appsv1.WebApp, s *corev1.Service) string {
	switch {
	case s == nil:
		return ""
	case app.Spec.Service.Type != corev1.ServiceTypeLoadBalancer:
		return address(schemeHTTP, fmt.Sprintf("%s.%s.svc", app.Name, app.Namespace), servicePort(app))
	}
	for _, a := range s.Status.LoadBalancer.Ingress {
		if host := cmp.Or(a.Hostname, a.IP); host != "" {
			return address(schemeHTTP, host, servicePort(app))
		}
	}
	return ""
}

// gatewayURL is the URL of the first listener of the scheme that serves the route by a specific name or address.
func gatewayURL(app *appsv1.WebApp, in inputs, gateways []gateway, scheme string) string {
	for _, ref := range app.Spec.Gateway.ParentRefs {
		for _, g := range gateways {
			if g.Metadata.Name != ref.Name || g.Metadata.Namespace != cmp.Or(ref.Namespace, app.Namespace) {
				continue
			}
			for _, l := range g.Spec.Listeners {
				if (ref.SectionName != "" && ref.SectionName != l.Name) || !strings.EqualFold(l.Protocol, scheme) || !admits(g, l, app, in.namespaceLabels) {
					continue
				}
				if host := hostOf(app.Spec.Gateway.Hostnames, g, l); host != "" {
					return address(scheme, host, l.Port)
				}
			}
		}
	}
	return ""
}

// admits reports whether a listener serves routes of app's namespace.
func admits(g gateway, l listener, app *appsv1.WebApp, namespace map[string]string) bool {
	switch from := l.AllowedRoutes.Namespaces; from.From {
	case "All":
		return true
	case "Selector":
		selector, err := metav1.LabelSelectorAsSelector(from.Selector)
		return err == nil && selector.Matches(k8slabels.Set(namespace))
	default:
		return g.Metadata.Namespace == app.Namespace
	}
}

// hostOf is a name that both the route and the listener serve. Without names it is the Gateway's address.
func hostOf(hostnames []string, g gateway, l listener) string {
	for _, h := range hostnames {
		if name := shared(h, l.Hostname); name != "" {
			return name
		}
	}
	switch {
	case len(hostnames) > 0 || wildcard(l.Hostname):
		return ""
	case l.Hostname != "":
		return l.Hostname
	case len(g.Status.Addresses) > 0:
		return g.Status.Addresses[0].Value
	}
	return ""
}

// shared is the name that both the route and the listener accept; "" if there is none, or not a single one. A listener without a
// name accepts any.
func shared(ofRoute, ofListener string) string {
	switch {
	case !wildcard(ofRoute) && (ofListener == "" || covers(ofListener, ofRoute)):
		return ofRoute
	case ofListener != "" && !wildcard(ofListener) && covers(ofRoute, ofListener):
		return ofListener
	}
	return ""
}

func wildcard(host string) bool { return strings.HasPrefix(host, "*") }

// covers reports whether host equals pattern, or is below it if pattern is a wildcard.
func covers(pattern, host string) bool {
	if suffix, ok := strings.CutPrefix(pattern, "*"); ok {
		return strings.HasSuffix(host, suffix) && host != suffix
	}
	return pattern == host
}

// address is a URL without a path, and without the port if it is 0 or the default of the scheme.
func address(scheme, host string, port int32) string {
	if port != 0 && port != map[string]int32{schemeHTTP: 80, schemeHTTPS: 443}[scheme] {
		return scheme + "://" + net.JoinHostPort(host, strconv.Itoa(int(port)))
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return scheme + "://" + host
}
