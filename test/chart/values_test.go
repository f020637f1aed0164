package chart_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// change is the effect of values on a field of an object.
type change struct {
	values string
	object string
	field  string // empty for an object that exists only with the values, or only without them
	has    string // JSON in the field with the values, and not without them
	lacks  string // JSON in the field without the values, and not with them
}

const (
	arguments  = container + ".args"
	pod        = "spec.template.spec"
	monitor    = "metrics: {serviceMonitor: {enabled: true"
	rule       = "metrics: {prometheusRule: {enabled: true"
	webappsCRD = "CustomResourceDefinition/webapps.apps.fettle.dev"
)

var changes = []change{
	{values: "replicaCount: 3", object: operator, field: "spec.replicas", has: "3"},
	{values: "image: {repository: example.com/fettle}", object: operator, field: container + ".image", has: `"example.com/fettle:v`},
	{values: "image: {repository: example.com/fettle}", object: operator, field: container + ".env", has: `{"name":"OPERATOR_IMAGE","value":"example.com/fettle:v`},
	{values: "image: {tag: v9}", object: operator, field: container + ".image", has: `fettle:v9"`},
	{values: "image: {pullPolicy: Always}", object: operator, field: container + ".imagePullPolicy", has: `"Always"`},
	{values: "imagePullSecrets: [{name: a}]", object: operator, field: pod, has: `"imagePullSecrets":[{"name":"a"}]`},
	{values: "resources: {limits: {memory: 1Gi}}", object: operator, field: container + ".resources", has: `"memory":"1Gi"`},
	{values: "resources: {limits: {memory: 1Gi}}", object: operator, field: container + ".env", has: `{"name":"GOMEMLIMIT","value":"921MiB"}`},
	{values: "resources: {limits: {memory: 1G}}", object: operator, field: container + ".env", lacks: `"GOMEMLIMIT"`},
	{values: "resources: {requests: null, limits: null}", object: operator, field: container, lacks: `"resources"`},
	{values: "affinity: {podAntiAffinity: null}", object: operator, field: pod + ".affinity", lacks: `"podAntiAffinity"`},
	{values: "nodeSelector: {disk: ssd}", object: operator, field: pod, has: `"nodeSelector":{"disk":"ssd"}`},
	{values: "tolerations: [{operator: Exists}]", object: operator, field: pod, has: `"tolerations":[{"operator":"Exists"}]`},
	{values: "topologySpreadConstraints: [{maxSkew: 1}]", object: operator, field: pod, has: `"topologySpreadConstraints":[{"maxSkew":1}]`},
	{values: "priorityClassName: high", object: operator, field: pod, has: `"priorityClassName":"high"`},
	{values: "podAnnotations: {a: b}", object: operator, field: "spec.template.metadata.annotations", has: `"a":"b"`},
	{values: "podLabels: {a: b}", object: operator, field: "spec.template.metadata.labels", has: `"a":"b"`},
	{values: "serviceAccount: {annotations: {a: b}}", object: "ServiceAccount/fettle-controller-manager", field: "metadata", has: `"annotations":{"a":"b"}`},
	{values: "{leaderElection: {enabled: false}, replicaCount: 1}", object: operator, field: arguments, lacks: "--leader-elect"},
	{values: "leaderElection: {leaseDuration: 60s}", object: operator, field: arguments, has: `"--leader-elect-lease-duration=60s"`},
	{values: "leaderElection: {renewDeadline: 9s}", object: operator, field: arguments, has: `"--leader-elect-renew-deadline=9s"`},
	{values: "leaderElection: {retryPeriod: 1s}", object: operator, field: arguments, has: `"--leader-elect-retry-period=1s"`},
	{values: "webhook: {enabled: false}", object: operator, field: arguments, has: `"--webhooks=false"`, lacks: "--webhook-certs"},
	{values: "webhook: {enabled: false}", object: operator, field: pod, lacks: `"webhook-cert"`},
	{values: "webhook: {enabled: false}", object: operator, field: container + ".ports", lacks: "9443"},
	{values: "webhook: {enabled: false}", object: "ValidatingWebhookConfiguration/fettle-validating-webhooks"},
	{values: "webhook: {enabled: false}", object: "Service/fettle-controller-manager-service"},
	{values: "webhook: {enabled: false}", object: "Secret/fettle-webhook-cert"},
	{values: "webhook: {enabled: false}", object: "ClusterRole/fettle-webhook-certs"},
	{values: "webhook: {port: 10250}", object: operator, field: container, has: `"--webhook-port=10250"`, lacks: "9443"},
	{values: "webhook: {port: 10250}", object: "Service/fettle-controller-manager-service", field: "spec.ports", has: `"targetPort":10250`},
	{values: "webhook: {certManager: {enabled: true}}", object: operator, field: arguments, has: `"--webhook-certs=provided"`, lacks: "self-signed"},
	{values: "webhook: {certManager: {enabled: true}}", object: "Certificate/fettle-webhook-cert"},
	{values: "webhook: {certManager: {enabled: true}}", object: "ClusterRole/fettle-webhook-certs"},
	{values: "watchNamespaces: [fettle-system, shop]", object: operator, field: arguments, has: `"--watch-namespaces=fettle-system,shop"`},
	{values: "logging: {level: debug}", object: operator, field: arguments, has: `"--zap-log-level=debug"`},
	{values: "logging: {level: 3}", object: operator, field: arguments, has: `"--zap-log-level=3"`},
	{values: "logging: {encoder: console}", object: operator, field: arguments, has: `"--zap-encoder=console"`},
	{values: "metrics: {enabled: false}", object: operator, field: arguments, has: `"--metrics-bind-address=0"`},
	{values: "metrics: {enabled: false}", object: operator, field: container + ".ports", lacks: "8443"},
	{values: "metrics: {enabled: false}", object: "Service/fettle-controller-manager-metrics"},
	{values: "metrics: {perObject: true}", object: operator, field: arguments, has: `"--per-object-metrics"`},
	{values: monitor + "}}", object: "ServiceMonitor/fettle-controller-manager"},
	{values: monitor + ", interval: 1m}}", object: "ServiceMonitor/fettle-controller-manager", field: "spec.endpoints.0.interval", has: `"1m"`},
	{values: monitor + ", labels: {a: b}}}", object: "ServiceMonitor/fettle-controller-manager", field: "metadata.labels", has: `"a":"b"`},
	{values: rule + "}}", object: "PrometheusRule/fettle-controller-manager"},
	{values: rule + ", labels: {a: b}}}", object: "PrometheusRule/fettle-controller-manager", field: "metadata.labels", has: `"a":"b"`},
	{values: "networkPolicy: {enabled: true}", object: "NetworkPolicy/fettle-controller-manager"},
	{values: "{networkPolicy: {enabled: true}, webhook: {port: 10250}}", object: "NetworkPolicy/fettle-controller-manager", field: "spec.ingress", has: "10250"},
	{values: "crds: {install: false}", object: webappsCRD},
	{values: "crds: {keep: false}", object: webappsCRD, field: "metadata.annotations", lacks: `"helm.sh/resource-policy":"keep"`},
	{values: "extraArgs: [--workers=10]", object: operator, field: arguments, has: `"--workers=10"`},
	{values: "extraEnv: [{name: A, value: b}]", object: operator, field: container + ".env", has: `{"name":"A","value":"b"}`},
	{values: "extraEnv: [{name: GOMEMLIMIT, value: 1GiB}]", object: operator, field: container + ".env", has: `"1GiB"`, lacks: `"460MiB"`},
}

// TestValues_changeObjects renders the chart with and without each value.
func TestValues_changeObjects(t *testing.T) {
	usual := helm(t, "")
	for _, c := range changes {
		with := helm(t, c.values)
		if c.field == "" {
			if (usual[c.object] == nil) == (with[c.object] == nil) {
				t.Errorf("%s: %s exists with and without it, or never", c.values, c.object)
			}
			continue
		}
		before, after := toJSON(t, get(usual[c.object], c.field)), toJSON(t, get(with[c.object], c.field))
		if c.has != "" && (!strings.Contains(after, c.has) || strings.Contains(before, c.has)) {
			t.Errorf("%s: %s of %s is\n%s\nwant %s, and without the value not:\n%s", c.values, c.field, c.object, after, c.has, before)
		}
		if c.lacks != "" && (strings.Contains(after, c.lacks) || !strings.Contains(before, c.lacks)) {
			t.Errorf("%s: %s of %s is\n%s\nwant no %s, and without the value:\n%s", c.values, c.field, c.object, after, c.lacks, before)
		}
	}
}

// TestValues_wrongOnesAreRejected covers typos, types, and combinations that cannot work.
func TestValues_wrongOnesAreRejected(t *testing.T) {
	for values, want := range map[string]string{
		"replicas: 3":       "replicas",
		"replicaCount: two": "replicaCount",
		"webhook: {certmanager: {enabled: true}}":                    "certmanager",
		"webhook: {port: 8443}":                                      "port",
		"leaderElection: {leaseDuration: 15}":                        "leaseDuration",
		"image: {pullPolicy: Sometimes}":                             "pullPolicy",
		"logging: {level: verbose}":                                  "level",
		"podLabels: {app.kubernetes.io/name: other}":                 "app.kubernetes.io/name",
		"extraEnv: [{name: POD_NAMESPACE, value: x}]":                "extraEnv",
		"watchNamespaces: shop":                                      "watchNamespaces",
		"leaderElection: {enabled: false}":                           "leaderElection.enabled=true",
		"metrics: {enabled: false, serviceMonitor: {enabled: true}}": "metrics.enabled=true",
	} {
		if _, err := render(t, namespace, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", values, err, want)
		}
	}
}

// schema is a part of values.schema.json.
type schema struct {
	Properties map[string]schema `json:"properties"`
	Ref        string            `json:"$ref"`
	Type       any               `json:"type"`
}

// leaves returns the paths of the values that have no properties.
func (s schema) leaves(prefix string) []string {
	if len(s.Properties) == 0 {
		return []string{strings.TrimPrefix(prefix, ".")}
	}
	var all []string
	for name, property := range s.Properties {
		all = append(all, property.leaves(prefix+"."+name)...)
	}
	return all
}

// TestValues_agree compares the paths in values.schema.json, values.yaml, docs/helm.md and the changes above, and the defaults of the page.
func TestValues_agree(t *testing.T) {
	s, values := schema{}, map[string]any{}
	readYAML(t, "charts/fettle/values.schema.json", &s)
	readYAML(t, "charts/fettle/values.yaml", &values)
	delete(s.Properties, "global") // Helm adds it
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-zA-Z.]+)` \\| (.*?) \\|").FindAllStringSubmatch(string(readFile(t, "docs/helm.md")), -1) {
		documented[row[1]] = strings.Trim(row[2], "`")
	}
	leaves := s.leaves("")
	for _, path := range leaves {
		value := get(values, path)
		if value == nil {
			t.Errorf("values.yaml has no %s", path)
		}
		if usual, ok := documented[path]; !ok {
			t.Errorf("docs/helm.md has no row for %s", path)
		} else if text := toJSON(t, value); usual != text && usual != strings.Trim(text, `"`) && len(text) < 40 {
			t.Errorf("docs/helm.md: the default of %s is %q, want %s", path, usual, text)
		}
		if !slices.ContainsFunc(changes, func(c change) bool { return sets(t, c.values, path) }) {
			t.Errorf("no test changes %s", path)
		}
		remove(values, strings.Split(path, "."))
	}
	for _, path := range slices.Sorted(maps.Keys(documented)) {
		if !slices.Contains(leaves, path) {
			t.Errorf("docs/helm.md documents %s, which is no value", path)
		}
	}
	if diff := cmp.Diff(map[string]any{}, values); diff != "" {
		t.Errorf("values.yaml has values that values.schema.json has not:\n%s", diff)
	}
}

// sets reports whether values in YAML set a path, also to null.
func sets(t *testing.T, text, path string) bool {
	t.Helper()
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	parent, name := values, path
	if i := strings.LastIndex(path, "."); i >= 0 {
		parent, _ = get(values, path[:i]).(map[string]any)
		name = path[i+1:]
	}
	_, ok := parent[name]
	return ok
}

// remove deletes a path, and the maps that are empty without it.
func remove(from map[string]any, path []string) {
	if next, ok := from[path[0]].(map[string]any); ok && len(path) > 1 {
		if remove(next, path[1:]); len(next) > 0 {
			return
		}
	}
	delete(from, path[0])
}
