package v1_test

import (
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// cases are, for each rule that is written in CEL, a spec that it accepts and some that it rejects.
var cases = []struct {
	kind   string
	accept string
	reject []string
	// field is the path and message the start of the sentence that the refusal must contain.
	field, message string
}{
	{webApp, `image: registry.example.com:5000/team/app_1:v1@sha256:0123`, []string{`image: "nginx latest"`, `image: -nginx`, `image: "http://nginx?x"`},
		"spec.image", "image: must be an image reference"},
	{webApp, `{volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: a, mountPath: /a}]}`,
		[]string{`volumeMounts: [{name: a, mountPath: /a}]`, `{volumes: [{name: b, emptyDir: {}}], volumeMounts: [{name: a, mountPath: /a}]}`},
		"spec", "volumeMounts: each name must be the name of one of spec.volumes"},
	{webApp, `{autoscaling: {maxReplicas: 3, targetCPUUtilizationPercentage: 50}, resources: {requests: {cpu: 100m}}}`,
		[]string{`autoscaling: {maxReplicas: 3, targetCPUUtilizationPercentage: 50}`,
			`{autoscaling: {maxReplicas: 3, targetCPUUtilizationPercentage: 50}, resources: {requests: {memory: 1Gi}}}`},
		"spec", "autoscaling.targetCPUUtilizationPercentage: is a percentage of resources.requests.cpu"},
	{webApp, `{autoscaling: {maxReplicas: 3, targetMemoryUtilizationPercentage: 50}, resources: {limits: {memory: 1Gi}}}`,
		[]string{`autoscaling: {maxReplicas: 3, targetMemoryUtilizationPercentage: 50}`},
		"spec", "autoscaling.targetMemoryUtilizationPercentage: is a percentage of resources.requests.memory"},
	{webApp, `{autoscaling: {minReplicas: 3, maxReplicas: 3, targetCPUUtilizationPercentage: 50}, resources: {limits: {cpu: 1}}}`,
		[]string{`{autoscaling: {minReplicas: 4, maxReplicas: 3, targetCPUUtilizationPercentage: 50}, resources: {limits: {cpu: 1}}}`},
		"spec.autoscaling", "maxReplicas: must not be below minReplicas"},
	{webApp, `{autoscaling: {maxReplicas: 3, targetCPUUtilizationPercentage: 50}, resources: {limits: {cpu: 1}}}`,
		[]string{`autoscaling: {maxReplicas: 3}`},
		"spec.autoscaling", "targetCPUUtilizationPercentage, targetMemoryUtilizationPercentage: set at least one"},
	{webApp, `{port: 8080, service: {port: 80, extraPorts: [{name: a, port: 8080}]}}`,
		[]string{`{port: 8080, service: {extraPorts: [{name: a, port: 8080}]}}`, `{service: {port: 81, extraPorts: [{name: a, port: 81}]}}`},
		"spec", "service.extraPorts: must not repeat the port of the Service"},
	{webApp, `{monitoring: {port: metrics}, service: {extraPorts: [{name: metrics, port: 81}]}}`,
		[]string{`monitoring: {port: metrics}`, `{monitoring: {port: metrics}, service: {extraPorts: [{name: other, port: 81}]}}`},
		"spec", "monitoring.port: must be http or the name of one of service.extraPorts"},
	{webApp, `service: {extraPorts: [{name: a, port: 81}, {name: b, port: 82}]}`,
		[]string{`service: {extraPorts: [{name: a, port: 81}, {name: b, port: 81}]}`},
		"spec.service.extraPorts", "extraPorts: each port may be listed once"},
	{webApp, `service: {extraPorts: [{name: grpc-web, port: 81}]}`,
		[]string{`service: {extraPorts: [{name: http, port: 81}]}`, `service: {extraPorts: [{name: A, port: 81}]}`, `service: {extraPorts: [{name: a-, port: 81}]}`},
		"spec.service.extraPorts[0].name", "name: must be lower-case letters"},
	{webApp, `securityContext: {privileged: false}`, []string{`securityContext: {privileged: true}`},
		"spec", "securityContext.privileged: a WebApp is never privileged"},
	{webApp, `{securityProfile: Restricted, securityContext: {runAsUser: 1000, capabilities: {add: [NET_BIND_SERVICE]}}}`,
		[]string{
			`{securityProfile: Restricted, securityContext: {runAsUser: 0}}`,
			`{securityProfile: Restricted, securityContext: {runAsNonRoot: false}}`,
			`{securityProfile: Restricted, securityContext: {allowPrivilegeEscalation: true}}`,
			`{securityProfile: Restricted, securityContext: {capabilities: {add: [SYS_ADMIN]}}}`,
		}, "spec", "securityContext: weakens the Restricted profile"},
	{webApp, `resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {cpu: 1, memory: 1Gi}}`,
		[]string{`resources: {requests: {cpu: 2}, limits: {cpu: 1}}`, `resources: {requests: {memory: 2Gi}, limits: {memory: 1500Mi}}`},
		"spec.resources", "resources: no request may be above its limit"},
	{webApp, `env: [{name: A_1.b-c, value: x}]`, []string{`env: [{name: 1A}]`, `env: [{name: "A B"}]`, `env: [{name: A=B}]`},
		"spec.env[0].name", "name: consists of letters, digits"},
	{webApp, `env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]`,
		[]string{`env: [{name: A, value: x, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]`},
		"spec.env[0]", "value, valueFrom: set one of the two"},
	{webApp, `probes: {readiness: {type: HTTP, path: /}}`, []string{`probes: {readiness: {type: TCP, path: /}}`},
		"spec.probes.readiness", "path: only a probe of type HTTP has a path"},
	{webApp, `probes: {liveness: {path: /}}`, []string{`probes: {liveness: {type: HTTP}}`},
		"spec.probes.liveness", "path: must be set for a probe of type HTTP"},
	{webApp, `serviceAccountName: web.v2`, []string{`serviceAccountName: Web`, `serviceAccountName: a/b`, `serviceAccountName: a.`},
		"spec.serviceAccountName", "should match"},
	{webApp, `configRefs: [{kind: Secret, name: db.v2}]`, []string{`configRefs: [{kind: Secret, name: DB}]`, `configRefs: [{kind: Secret, name: a/b}]`},
		"spec.configRefs[0].name", "should match"},
	{webApp, `ingress: {host: a.example.com, tlsSecretName: a}`,
		[]string{`ingress: {host: a.example.com, tlsSecretName: a, certIssuer: {name: b}}`},
		"spec.ingress", "tlsSecretName, certIssuer: set one of the two"},
	{webApp, `ingress: {host: "*.example.com"}`, []string{`ingress: {host: A.example.com}`, `ingress: {host: "http://a"}`, `ingress: {host: a..b}`},
		"spec.ingress.host", "host: must be a DNS name in lower case"},
	{webApp, `ingress: {host: a, path: "/a/b-c~1"}`, []string{`ingress: {host: a, path: a}`, `ingress: {host: a, path: "/a b"}`, `ingress: {host: a, path: "/a;{}"}`},
		"spec.ingress.path", "path: must start with '/'"},
	{webApp, `ingress: {host: a, annotations: {nginx.ingress.kubernetes.io/rewrite-target: /}}`,
		[]string{`ingress: {host: a, annotations: {nginx.ingress.kubernetes.io/server-snippet: x}}`, `ingress: {host: a, annotations: {x/http-snippets: x}}`},
		"spec.ingress.annotations", "annotations: snippets inject configuration"},
	{webApp, `disruption: {minAvailable: 50%}`, []string{`disruption: {minAvailable: 1, maxUnavailable: 1}`},
		"spec.disruption", "minAvailable, maxUnavailable: set one of the two"},
	{webApp, `disruption: {minAvailable: 0}`, []string{`disruption: {minAvailable: half}`, `disruption: {minAvailable: -1}`},
		"spec.disruption.minAvailable", "minAvailable: must be a number of pods or a percentage such as 50%"},
	{webApp, `disruption: {maxUnavailable: 2}`, []string{`disruption: {maxUnavailable: "2"}`, `disruption: {maxUnavailable: 1000%}`},
		"spec.disruption.maxUnavailable", "maxUnavailable: must be a number of pods or a percentage such as 50%"},
	{webApp, `strategy: {maxSurge: 1, maxUnavailable: 0}`, []string{`strategy: {type: Recreate, maxSurge: 1}`, `strategy: {type: Recreate, maxUnavailable: 0}`},
		"spec.strategy", "maxSurge, maxUnavailable: only a strategy of type RollingUpdate has them"},
	{webApp, `strategy: {maxSurge: 0, maxUnavailable: 10%}`, []string{`strategy: {maxSurge: 0, maxUnavailable: 0%}`, `strategy: {maxSurge: 0%, maxUnavailable: 0}`},
		"spec.strategy", "maxSurge, maxUnavailable: must not both be 0"},
	{webApp, `strategy: {maxSurge: 100%}`, []string{`strategy: {maxSurge: -1}`, `strategy: {maxSurge: all}`},
		"spec.strategy.maxSurge", "maxSurge: must be a number of pods or a percentage such as 25%"},
	{webApp, `strategy: {maxUnavailable: 1}`, []string{`strategy: {maxUnavailable: -1}`, `strategy: {maxUnavailable: all}`},
		"spec.strategy.maxUnavailable", "maxUnavailable: must be a number of pods or a percentage such as 25%"},
	{webApp, `rollout: {progressDeadline: 24h}`, []string{`rollout: {progressDeadline: 9s}`, `rollout: {progressDeadline: 25h}`},
		"spec.rollout.progressDeadline", "progressDeadline: must be a duration from 10s to 24h"},
	{webApp, `volumes: [{name: a, secret: {secretName: s}}]`,
		[]string{`volumes: [{name: a}]`, `volumes: [{name: a, emptyDir: {}, secret: {secretName: s}}]`},
		"spec.volumes[0]", "volumes: each needs exactly one of configMap, secret, emptyDir"},
	{webApp, `volumes: [{name: a-1, emptyDir: {}}]`, []string{`volumes: [{name: fettle-tmp, emptyDir: {}}]`, `volumes: [{name: A, emptyDir: {}}]`},
		"spec.volumes[0].name", "name: must be lower-case letters"},
	{webAppPolicy, `{maxReplicas: null, requireLimits: true}`, []string{`maxReplicas: null`, `{maxReplicas: null, requireLimits: false}`},
		"spec", "spec: a policy needs at least one of"},
	{webAppPolicy, `allowedRegistries: [registry.example.com/team/]`, []string{`allowedRegistries: [registry.example.com]`, `allowedRegistries: ["https://registry.example.com/"]`},
		"spec.allowedRegistries", "allowedRegistries: each must end with '/' and have no scheme"},
}

func TestRules(t *testing.T) {
	c := newClient(t)
	for _, r := range cases {
		t.Run(r.kind+"/"+r.message, func(t *testing.T) {
			if err := try(t, c, object(t, r.kind, r.accept)); err != nil {
				t.Errorf("%s: rejected: %v", r.accept, err)
			}
			for _, spec := range r.reject {
				switch err := try(t, c, object(t, r.kind, spec)); {
				case err == nil:
					t.Errorf("%s: accepted", spec)
				case !strings.Contains(err.Error(), r.field+": ") || !strings.Contains(err.Error(), r.message):
					t.Errorf("%s: rejected with %q, want %s: %s", spec, err, r.field, r.message)
				}
			}
		})
	}
}

// TestEveryRuleHasCases finds the rules of the schema that no case above is about.
func TestEveryRuleHasCases(t *testing.T) {
	for kind := range crdFiles {
		walk(schemaOf(t, kind), "", func(path string, s *apiextensionsv1.JSONSchemaProps) {
			for _, rule := range s.XValidations {
				if strings.HasPrefix(rule.Message, "metadata.name:") {
					continue // TestName
				}
				covered := slices.ContainsFunc(cases, func(r struct {
					kind           string
					accept         string
					reject         []string
					field, message string
				}) bool {
					return r.kind == kind && strings.HasPrefix(rule.Message, r.message)
				})
				if !covered {
					t.Errorf("%s%s: no case for the rule %q", kind, path, rule.Message)
				}
			}
		})
	}
}

func TestName(t *testing.T) {
	c := newClient(t)
	for name, ok := range map[string]bool{
		"web": true, "a" + strings.Repeat("b", 62): true, "web-1": true,
		"a" + strings.Repeat("b", 63): false, "1web": false, "web.app": false,
	} {
		u := object(t, webApp, "")
		u.SetName(name)
		err := try(t, c, u)
		if (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && !strings.Contains(err.Error(), "metadata.name: must be a DNS label of at most 63 characters") {
			t.Errorf("%s: rejected with %q", name, err)
		}
	}
}
