package api_test

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/fettle-dev/fettle/api"
)

const postgreSQLDefaults = `
version: "16"
storage: 1Gi
replicas: 1
databaseName: app
replicaRecovery: Automatic
failover: {maximumLag: 32Mi}
bootstrap: {initdb: {locale: C.UTF-8, walSegmentSizeMB: 16}}
lease: {leaseDurationSeconds: 10, renewDeadlineSeconds: 7, retryPeriodSeconds: 2}
monitoring: {interval: 30s}
networkPolicy: {enabled: true}
tls: {}
agentUpdatePolicy: OnRestart
terminationGracePeriodSeconds: 60
deletionPolicy: Retain`

// specs are specs as they are written and as they are stored.
var specs = []struct{ kind, spec, want, override string }{
	{"WebApp", ``, `
image: nginx
replicas: 1
port: 80
probes: {}
rollout: {progressDeadline: 10m}
service: {type: ClusterIP}
topologySpread: true`, ``},
	{"WebApp", `
replicas: 0
ingress: {host: a, certIssuer: {name: a}}
gateway: {parentRefs: [{name: a}]}
env: [{name: A, value: "1"}]
monitoring: {}
networkPolicy: {}
disruption: {}
strategy: {}
rollout: {autoRollback: true, progressDeadline: 90s}
autoscaling: {maxReplicas: 3, targetCPUUtilizationPercentage: 50}
resources: {requests: {cpu: "1"}}`, `
image: nginx
replicas: 0
port: 80
probes: {}
rollout: {progressDeadline: 90s, autoRollback: true}
service: {type: ClusterIP}
topologySpread: true
ingress: {host: a, path: /, pathType: Prefix, certIssuer: {name: a, kind: Issuer}}
gateway: {parentRefs: [{name: a}], path: /}
env: [{name: A, value: "1"}]
monitoring: {port: http, path: /metrics, interval: 30s}
networkPolicy: {enabled: true}
disruption: {enabled: true}
strategy: {type: RollingUpdate}
autoscaling: {minReplicas: 1, maxReplicas: 3, targetCPUUtilizationPercentage: 50}
resources: {requests: {cpu: "1"}}`, ``},
	{"WebAppPolicy", ``, `{namespaceSelector: {}, maxReplicas: 10, action: Warn}`, ``},
	{"AppConfig", ``, `
application: shop
environment: dev
config: {A: "1"}
target: {mode: InPlace, historyLimit: 5}
rollout: {strategy: Restart, discovery: References, debounce: 5s, minInterval: 30s, maxConcurrent: 1, progressDeadline: 10m}`, ``},
	{"AppConfig", `
target: {historyLimit: 0}
rollout: {strategy: None, debounce: 0s, minInterval: 90s, window: {schedule: "0 2 * * *", duration: 1h}}
schema: {config: {x-any: [1]}, files: {a.json: {b: {c: 1}}}}`, `
application: shop
environment: dev
config: {A: "1"}
schema: {config: {x-any: [1]}, files: {a.json: {b: {c: 1}}}}
target: {mode: InPlace, historyLimit: 0}
rollout:
  strategy: None
  discovery: References
  debounce: 0s
  minInterval: 90s
  maxConcurrent: 1
  progressDeadline: 10m
  window: {schedule: "0 2 * * *", duration: 1h, timeZone: UTC}`, ``},
	{"PostgreSQL", ``, postgreSQLDefaults, ``},
	{"PostgreSQL", `
autoGrow: {max: 9Gi}
synchronous: {}
replicas: 2
roles: [{name: a}]
databases: [{name: b}]
pgHBA: [{}]
lease: {leaseDurationSeconds: 30}
monitoring: {enabled: true}
tls: {issuerRef: {name: a}}`, postgreSQLDefaults, `
autoGrow: {threshold: 80, step: 20%, max: 9Gi}
synchronous: {number: 1}
replicas: 2
roles: [{name: a, login: true, connectionLimit: -1}]
databases: [{name: b}]
pgHBA: [{method: scram-sha-256}]
lease: {leaseDurationSeconds: 30, renewDeadlineSeconds: 7, retryPeriodSeconds: 2}
monitoring: {enabled: true, interval: 30s}
tls: {issuerRef: {name: a, kind: Issuer, group: cert-manager.io}}`},
	{"VoteConfig", ``, `
title: Vote Now!
resultsTitle: Results
options: [{id: a, label: Cats}, {id: b, label: Dogs}]
target: {mode: Env}`, ``},
	{"VoteConfig", `{title: Pets, resultsTitle: Won, maxVotesPerUser: 3, target: {configMapName: pets, deployments: [vote], mode: None}}`, `
title: Pets
resultsTitle: Won
maxVotesPerUser: 3
options: [{id: a, label: Cats}, {id: b, label: Dogs}]
target: {configMapName: pets, deployments: [vote], mode: None}`, ``},
	{"AppStack", ``, `
components: [{name: web, webApp: {image: nginx}}]
deletionPolicy: Retain
componentTimeout: 15m`, ``},
	{"AppStack", `components: [{name: cache, cache: {}}, {name: db, mySQL: {backup: {}}}]`, `
components: [{name: cache, cache: {type: Valkey, memory: 256Mi, evictionPolicy: allkeys-lru}}, {name: db, mySQL: {type: MySQL, databaseName: app, backup: {}}}]
deletionPolicy: Retain
componentTimeout: 15m`, ``},
	{"EcommercePlatform", ``, `
frontend: {image: example/frontend}
backend: {image: example/backend}
environment: development
database: {type: postgresql}
cache: {enabled: true, type: Valkey, memory: 256Mi}
monitoring: {enabled: true}
deletionPolicy: Retain`, ``},
}

// TestDefaults stores each spec. It also holds that the Go types lose nothing and add nothing that changes the meaning.
func TestDefaults(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, c := range specs {
		t.Run(c.kind, func(t *testing.T) {
			k := kindNamed(c.kind)
			want := parse[map[string]any](t, c.want)
			maps.Copy(want, parse[map[string]any](t, c.override))
			stored := created(t, k, object(t, k, c.spec))
			if diff := cmp.Diff(want, plain(t, stored).Object["spec"]); diff != "" {
				t.Errorf("%q is stored as (-want +got):\n%s", c.spec, diff)
			}
			typed, err := scheme.New(stored.GroupVersionKind())
			if err != nil {
				t.Fatal(err)
			}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, typed); err != nil {
				t.Fatal(err)
			}
			back, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(canonical(want), canonical(plain(t, &unstructured.Unstructured{Object: back}).Object["spec"])); diff != "" {
				t.Errorf("%q after a round trip (-want +got):\n%s", c.spec, diff)
			}
		})
	}
}

// canonical has durations in one form, and no empty objects.
func canonical(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, field := range v {
			if m, ok := canonical(field).(map[string]any); !ok || len(m) > 0 {
				out[key] = canonical(field)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = canonical(v[i])
		}
		return out
	case string:
		if d, err := time.ParseDuration(v); err == nil {
			return d.String()
		}
	}
	return value
}

func TestStatusRightAfterCreation(t *testing.T) {
	for _, k := range kinds {
		stored := created(t, k, object(t, k, ""))
		conditions, _, _ := unstructured.NestedSlice(stored.Object, "status", "conditions")
		if len(conditions) != 1 {
			t.Errorf("%s: conditions %v", k.name, conditions)
			continue
		}
		ready := conditions[0].(map[string]any)
		if ready["type"] != "Ready" || ready["status"] != "Unknown" || ready["reason"] != "Reconciling" || ready["message"] != "waiting for the Fettle operator" {
			t.Errorf("%s: Ready is %v", k.name, ready)
		}
		if phase, _, _ := unstructured.NestedString(stored.Object, "status", "phase"); phase != "Pending" && k.name != "WebAppPolicy" {
			t.Errorf("%s: phase is %q, want Pending", k.name, phase)
		}
	}
}

// TestExamples applies manifests that people know from elsewhere.
func TestExamples(t *testing.T) {
	for _, c := range []struct{ kind, name, spec string }{
		{"WebApp", "my-app", `{image: "nginx:latest", replicas: 3, port: 80}`},
		{"WebApp", "test-app", `{image: "nginx:alpine", replicas: 2, port: 80}`},
		{"AppConfig", "my-app", `{application: my-app, environment: prod, config: {database_url: "postgres://prod-db:5432/my-app", log_level: warn}}`},
		{"PostgreSQL", "my-postgres", `{version: "16", storage: "1Gi", replicas: 1, databaseName: myapp}`},
		{"PostgreSQL", "test-db", `{version: "14", storage: "10Gi", replicas: 1}`},
		{"PostgreSQL", "my-db", `{version: "15", storage: "10Gi", replicas: 3, backup: {enabled: true, schedule: "0 2 * * *", retention: "30d"}}`},
		{"VoteConfig", "cats-vs-dogs", `{title: "Cats vs Dogs!", resultsTitle: Results, options: [{id: a, label: Cats, color: "#FF6B6B"}, {id: b, label: Dogs, color: "#4ECDC4"}]}`},
		{"VoteConfig", "languages", `options: [{id: a, label: Go, color: "#00ADD8"}, {id: b, label: Rust, color: "#DEA584"}, {id: c, label: Python, color: "#3776AB"}]`},
		{"VoteConfig", "limited", `{maxVotesPerUser: 3, options: [{id: a, label: Cats}, {id: b, label: Dogs}]}`},
	} {
		u := object(t, kindNamed(c.kind), c.spec)
		u.SetName(c.name)
		stored := plain(t, created(t, kindNamed(c.kind), u)).Object["spec"].(map[string]any)
		for field, value := range plain(t, u).Object["spec"].(map[string]any) {
			if !cmp.Equal(value, stored[field]) {
				t.Errorf("%s: %s is stored as %v", c.name, field, stored[field])
			}
		}
	}
}

func TestSamples(t *testing.T) {
	files, err := filepath.Glob("../config/samples/*_*.yaml")
	if err != nil || len(files) < len(kinds) {
		t.Fatalf("samples: %v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(text, &u.Object); err != nil {
			t.Fatal(err)
		}
		if !kindNamed(u.GetKind()).cluster {
			u.SetNamespace("default")
		} else if action, _, _ := unstructured.NestedString(u.Object, "spec", "action"); action != "Warn" {
			t.Errorf("%s: action %q: a policy that is created by a click must reject nothing", file, action)
		}
		if err := try(t, newClient(t), u); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestScale(t *testing.T) {
	c := newClient(t)
	u := created(t, kindNamed("WebApp"), object(t, kindNamed("WebApp"), "replicas: 3"))
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 5}}
	if err := c.SubResource("scale").Update(t.Context(), u, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(u), u); err != nil {
		t.Fatal(err)
	}
	if n, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas"); n != 5 {
		t.Errorf("spec.replicas is %d, want 5", n)
	}
}
