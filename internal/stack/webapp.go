package stack

import (
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
	"github.com/fettle-dev/fettle/internal/stack/server"
)

// authorityDirectory has a directory for each database whose certificate the pods check.
const authorityDirectory = "/etc/fettle/connections"

// webApp returns the WebApp of a component.
func (p *planner) webApp(at *field.Path, c *platformv1.AppStackComponent) *unstructured.Unstructured {
	typed := &appsv1.WebAppSpec{}
	spec := p.decode(at, c.WebApp, typed)
	d := p.defaultsOf(c.Name)
	if environment := p.stack.Spec.Environment; environment != "" {
		if typed.Autoscaling == nil {
			d.fill(spec, int64(p.preset().pods), "replicas")
		}
		if has(spec, "resources") {
			d.note("resources", "as set", platformv1.FromSpec)
		} else {
			set(spec, p.preset().resources(), "resources")
			d.note("resources", p.preset().describe(), platformv1.FromEnvironment)
		}
	}
	if p.stack.Spec.Environment == platformv1.Production {
		d.fill(spec, string(appsv1.ProfileRestricted), "securityProfile")
		d.networkPolicy(spec, typed)
	}
	w := &wiring{planner: p, spec: spec, own: typed}
	for _, n := range p.connections(c) {
		w.connect(at, n)
	}
	w.write()
	return p.newChild(c, webAppKind, spec)
}

func (p preset) describe() string {
	limits := "memory " + p.limitMemory
	if p.limitCPU != "" {
		limits = "cpu " + p.limitCPU + ", " + limits
	}
	return fmt.Sprintf("requests cpu %s, memory %s; limits %s", p.requestCPU, p.requestMemory, limits)
}

// prometheus are the usual pods of Prometheus, in any namespace.
var prometheus = networkingv1.NetworkPolicyPeer{
	NamespaceSelector: &metav1.LabelSelector{},
	PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": "prometheus"}},
}

// networkPolicy admits exactly the dependants of a web application, and everybody if it is published.
func (d *defaults) networkPolicy(spec map[string]any, typed *appsv1.WebAppSpec) {
	if has(spec, "networkPolicy") {
		d.note("networkPolicy", "as set", platformv1.FromSpec)
		return
	}
	value, peers := "only dependants", d.peersOf(d.component)
	if typed.Monitoring != nil {
		peers = append(peers, prometheus)
	}
	if published(typed) {
		value = "everybody, since it is published"
		peers = []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "0.0.0.0/0"}}, {IPBlock: &networkingv1.IPBlock{CIDR: "::/0"}}}
	}
	if len(peers) == 0 { // an empty list would admit the whole namespace
		peers = append(peers, podsWith(map[string]string{platformv1.LabelPartOf: d.stack.Name}))
		value = "only this stack"
	}
	set(spec, toList(peers), "networkPolicy", "from")
	d.note("networkPolicy", value, platformv1.FromEnvironment)
}

// connections are those of the spec, otherwise one for each dependency.
func (p *planner) connections(c *platformv1.AppStackComponent) []platformv1.Connection {
	if c.Connections != nil {
		return c.Connections
	}
	var all []platformv1.Connection
	for _, d := range p.deps[c.Name] {
		all = append(all, platformv1.Connection{From: d})
	}
	return all
}

// wiring adds the connections of a web application to its spec. What the user set stays.
type wiring struct {
	*planner
	spec map[string]any
	own  *appsv1.WebAppSpec

	env, envFrom, configRefs, volumes, mounts []any
	taken                                     map[string]string // variables of other connections
}

// connect adds what the web application needs to connect to one component.
func (w *wiring) connect(at *field.Path, n platformv1.Connection) {
	c, ok := w.byName[n.From]
	if !ok {
		return // graphErrors reports it
	}
	ref := Ref(w.stack, c)
	switch kindOf(c) {
	case KindWebApp:
		w.connectWebApp(at, n, c, ref)
	case KindAppConfig:
		w.connectConfig(n, c)
	case KindPostgreSQL:
		w.secret(at, n, or(n.Prefix, "DATABASE_"), ref+"-credentials", "uri")
		w.authority(at, n, ref+"-credentials")
	case KindMySQL:
		w.secret(at, n, or(n.Prefix, "MYSQL_"), server.SecretName(ref), "uri")
	case KindCache:
		w.secret(at, n, or(n.Prefix, "REDIS_"), server.SecretName(ref), "uri")
	case KindExternal:
		prefix := map[platformv1.ExternalType]string{
			platformv1.ExternalPostgreSQL: "DATABASE_", platformv1.ExternalMySQL: "MYSQL_", platformv1.ExternalCache: "REDIS_",
		}[c.External.Type]
		w.secret(at, n, or(n.Prefix, prefix), ref, c.External.SecretRef.KeyOr("uri"))
	}
}

func or(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}

// variable adds an environment variable, unless the user has one of its name.
func (w *wiring) variable(at *field.Path, from, name string, value map[string]any) {
	if other, ok := w.taken[name]; ok {
		w.errs = append(w.errs, field.Invalid(at, name, fmt.Sprintf("the connections to %s and %s both set this variable: give one of them a prefix in connections", other, from)))
		return
	}
	if w.taken == nil {
		w.taken = map[string]string{}
	}
	w.taken[name] = from
	if slices.ContainsFunc(w.own.Env, func(e appsv1.WebAppEnvVar) bool { return e.Name == name }) {
		return
	}
	value["name"] = name
	w.env = append(w.env, value)
}

// secret adds the URL in a Secret as a variable. The pods restart when it changes.
func (w *wiring) secret(at *field.Path, n platformv1.Connection, prefix, name, key string) {
	w.variable(at, n.From, prefix+"URL", map[string]any{"valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": name, "key": key}}})
	w.refer("Secret", name)
}

// refer adds an object to configRefs.
func (w *wiring) refer(kind, name string) {
	if !slices.ContainsFunc(w.own.ConfigRefs, func(r appsv1.ConfigRef) bool { return r.Kind == kind && r.Name == name }) {
		w.configRefs = append(w.configRefs, map[string]any{"kind": kind, "name": name})
	}
}

// authority mounts the certificate of the authority that a PostgreSQL's certificate is checked against, and sets the variable that libpq
// and pgx read.
func (w *wiring) authority(at *field.Path, n platformv1.Connection, secret string) {
	path, volume := authorityDirectory+"/"+n.From, "connection-"+n.From
	if slices.ContainsFunc(w.own.Volumes, func(v appsv1.WebAppVolume) bool { return v.Name == volume }) {
		return
	}
	w.volumes = append(w.volumes, map[string]any{"name": volume, "secret": map[string]any{
		"secretName": secret, "items": []any{map[string]any{"key": "ca.crt", "path": "ca.crt"}},
	}})
	w.mounts = append(w.mounts, map[string]any{"name": volume, "mountPath": path, "readOnly": true})
	w.variable(at, n.From, or(n.Prefix, "PG")+"SSLROOTCERT", map[string]any{"value": path + "/ca.crt"})
}

// connectWebApp adds the address of the Service of another web application.
func (w *wiring) connectWebApp(at *field.Path, n platformv1.Connection, c *platformv1.AppStackComponent, ref string) {
	other := &appsv1.WebAppSpec{}
	(&planner{stack: w.stack}).decode(at, c.WebApp, other) // its errors are reported there
	port := other.Service.Port
	if port == 0 {
		port = other.Port
	}
	if port == 0 {
		port = 80
	}
	prefix := or(n.Prefix, strings.ToUpper(strings.ReplaceAll(c.Name, "-", "_"))+"_")
	w.variable(at, n.From, prefix+"HOST", map[string]any{"value": fmt.Sprintf("%s.%s.svc", ref, w.stack.Namespace)})
	w.variable(at, n.From, prefix+"PORT", map[string]any{"value": fmt.Sprint(port)})
}

// connectConfig adds all keys of an AppConfig as variables.
func (w *wiring) connectConfig(n platformv1.Connection, c *platformv1.AppStackComponent) {
	child := w.childOf(c.Name)
	if child == nil {
		return // it is invalid
	}
	spec, _, _ := unstructured.NestedMap(child.Object, "spec")
	name := configMapOf(spec)
	for _, source := range []map[string]any{
		{"configMapRef": map[string]any{"name": name}},
		{"secretRef": map[string]any{"name": name, "optional": true}}, // exists if values come from Secrets
	} {
		if n.Prefix != "" {
			source["prefix"] = n.Prefix
		}
		w.envFrom = append(w.envFrom, source)
	}
	w.refer(KindAppConfig, Ref(w.stack, c))
}

func (p *planner) childOf(name string) *unstructured.Unstructured {
	for i := range p.plan.Components {
		if p.plan.Components[i].Name == name {
			return p.plan.Components[i].child
		}
	}
	return nil
}

// write adds everything to the lists of the spec. What the connections set comes first, so that $(DATABASE_URL) works in variables of the
// user.
func (w *wiring) write() {
	for _, list := range []struct {
		name string
		add  []any
	}{{"env", w.env}, {"envFrom", w.envFrom}, {"configRefs", w.configRefs}, {"volumes", w.volumes}, {"volumeMounts", w.mounts}} {
		if len(list.add) == 0 {
			continue
		}
		own, _ := w.spec[list.name].([]any)
		w.spec[list.name] = append(list.add, own...)
	}
}
