package podtemplate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/yaml"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
)

func overlayOf(t *testing.T, text string) *runtime.RawExtension {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &runtime.RawExtension{Raw: raw}
}

const generated = `
metadata:
  labels: {app: web, fettle.dev/owner-name: web}
spec:
  automountServiceAccountToken: false
  securityContext: {runAsNonRoot: true}
  containers:
  - name: app
    image: nginx:1.25
    env: [{name: A, value: a}, {name: B, value: b}]
    ports: [{name: http, containerPort: 80, protocol: TCP}]
    readinessProbe: {tcpSocket: {port: http}, periodSeconds: 5}
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
  volumes:
  - {name: data, emptyDir: {}}
`

// TestMerge shows each overlay, and what of the generated pod template it changes.
func TestMerge(t *testing.T) {
	added := corev1ac.SecurityContext().WithAllowPrivilegeEscalation(false).WithCapabilities(corev1ac.Capabilities().WithDrop("ALL"))
	for _, c := range []struct{ name, overlay, old, new string }{
		{"nothing", `{}`, "", ""},
		{"nulls delete nothing", `{metadata: {labels: null}, spec: {containers: null, volumes: [], securityContext: {runAsNonRoot: null}}}`, "", ""},
		{"labels and annotations", `{metadata: {labels: {team: shop}, annotations: {a: b}}}`,
			"labels: {app: web,", "annotations: {a: b}\n  labels: {team: shop, app: web,"},
		{"a sidecar comes second, with the security context of the profile",
			`{spec: {containers: [{name: proxy, image: "envoy:1", securityContext: {runAsUser: 7, capabilities: {add: [CHOWN]}}}]}}`,
			"  volumes:", "  - {name: proxy, image: 'envoy:1', securityContext: " +
				"{runAsUser: 7, allowPrivilegeEscalation: false, capabilities: {drop: [ALL], add: [CHOWN]}}}\n  volumes:"},
		{"an init container", `{spec: {initContainers: [{name: migrate, image: "app:1"}]}}`,
			"  volumes:", "  initContainers: [{name: migrate, image: 'app:1', securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]\n  volumes:"},
		{"variables come after the generated ones", `{spec: {containers: [{name: app, env: [{name: C, value: $(A)}, {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]}]}}`,
			"value: b}]", "value: b}, {name: C, value: $(A)}, {name: NODE, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: spec.nodeName}}}]"},
		{"an exec probe replaces the generated probe", `{spec: {containers: [{name: app, readinessProbe: {exec: {command: [ok]}}}]}}`,
			"{tcpSocket: {port: http}, periodSeconds: 5}", "{exec: {command: [ok]}}"},
		{"a hook", `{spec: {containers: [{name: app, lifecycle: {preStop: {httpGet: {port: 80}}}}]}}`,
			"    ports:", "    lifecycle: {preStop: {httpGet: {port: 80, path: /, scheme: HTTP}}}\n    ports:"},
		{"the security context of the main container", `{spec: {containers: [{name: app, securityContext: {runAsUser: 5}}]}}`,
			"{allowPrivilegeEscalation: false,", "{runAsUser: 5, allowPrivilegeEscalation: false,"},
		{"DNS and a volume", `{spec: {dnsPolicy: None, dnsConfig: {nameservers: [10.0.0.1]}, volumes: [{name: conf, configMap: {name: c}}]}}`,
			"  volumes:\n", "  dnsPolicy: None\n  dnsConfig: {nameservers: [10.0.0.1]}\n  volumes:\n  - {name: conf, configMap: {name: c, defaultMode: 420}}\n"},
	} {
		if c.old != "" && !strings.Contains(generated, c.old) {
			t.Fatalf("%s: the pod template has no %q", c.name, c.old)
		}
		var base, want corev1ac.PodTemplateSpecApplyConfiguration
		for text, into := range map[string]*corev1ac.PodTemplateSpecApplyConfiguration{generated: &base, strings.Replace(generated, c.old, c.new, 1) + " ": &want} {
			if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		overlay := overlayOf(t, c.overlay)
		if errs := Validate(field.NewPath("spec", "podTemplate"), overlay, OfWebApp(&appsv1.WebApp{})); len(errs) > 0 {
			t.Errorf("%s: rejected: %v", c.name, errs)
		}
		got, err := Merge(&base, overlay, added)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestValidate(t *testing.T) {
	app := &appsv1.WebApp{}
	app.Spec = appsv1.WebAppSpec{
		Image: "nginx:1.25", Port: 80, Env: []appsv1.WebAppEnvVar{{Name: "A"}}, Volumes: []appsv1.WebAppVolume{{Name: "data"}},
		Service: appsv1.WebAppService{ExtraPorts: []appsv1.WebAppPort{{Name: "metrics", Port: 9090}}},
	}
	for _, c := range []struct {
		overlay string
		want    []string // the start of each error, after spec.podTemplate
	}{
		{`{metadata: {labels: {app.kubernetes.io/part-of: shop, app.kubernetes.io/version: v1}}}`, nil},
		{`{spec: {contaners: []}}`, []string{`.spec.contaners: Forbidden: unknown field`}},
		{`{spec: {containers: [{name: app, lifecycle: {preStop: {exec: {comand: [a]}}}}]}}`, []string{`.spec.containers[0].lifecycle.preStop.exec.comand: Forbidden: unknown field`}},
		{`{spec: {containers: [{name: app, $patch: delete}]}}`, []string{`.spec.containers[0].$patch: Forbidden: unknown field`}},
		{`{spec: {containers: app}}`, []string{`: Invalid value: is no pod template: json: cannot unmarshal string`}},
		{`{metadata: {name: a, ownerReferences: []}}`, []string{`.metadata.name: Forbidden: a pod template has only`, `.metadata.ownerReferences: Forbidden`}},
		{`{metadata: {labels: {app: other, fettle.dev/owner-name: other, a: "b c"}}}`, []string{
			`.metadata.labels: Invalid value: "b c"`, `.metadata.labels[app]: Forbidden: Fettle sets`, `.metadata.labels[fettle.dev/owner-name]: Forbidden`}},
		{`{metadata: {annotations: {fettle.dev/revision: a, configmap.fettle.dev/a: b, notfettle.dev/a: b}}}`, []string{
			`.metadata.annotations[configmap.fettle.dev/a]: Forbidden: annotations of fettle.dev`, `.metadata.annotations[fettle.dev/revision]: Forbidden`}},
		{`{spec: {serviceAccountName: admin, automountServiceAccountToken: true, restartPolicy: Never}}`, []string{
			`.spec.automountServiceAccountToken: Forbidden: set spec.automountServiceAccountToken`, `.spec.restartPolicy: Forbidden`, `.spec.serviceAccountName: Forbidden`}},
		{`{spec: {containers: [{name: app, image: other, command: [a]}]}}`, []string{
			`.spec.containers[0].command: Forbidden: set spec.command`, `.spec.containers[0].image: Forbidden: set spec.image`}},
		{`{spec: {containers: [{image: other}, {name: sidecar}]}}`, []string{`.spec.containers[0].name: Required`, `.spec.containers[1].image: Required`}},
		{`{spec: {initContainers: [{name: app, image: a}]}}`, []string{`.spec.initContainers[0].name: Forbidden: container "app" is Fettle's`}},
		{`{spec: {containers: [{name: s, image: a, securityContext: {privileged: true}}]}}`, []string{`.spec.containers[0].securityContext.privileged: Forbidden`}},
		{`{spec: {containers: [{name: app, env: [{name: A}], ports: [{containerPort: 80}, {containerPort: 9090}]}]}}`, []string{
			`.spec.containers[0].env[0].name: Invalid value: "A": is set by spec.env`, `.spec.containers[0].ports[0].containerPort: Invalid value: 80: is set by spec.port`,
			`.spec.containers[0].ports[1].containerPort: Invalid value: 9090: is set by spec.service.extraPorts`}},
		{`{spec: {volumes: [{name: data}, {name: fettle-tmp}]}}`, []string{`.spec.volumes[0].name: Invalid value: "data": is set by spec.volumes`, `.spec.volumes[1].name: Forbidden`}},
		{`{spec: {imagePullSecrets: [{}]}}`, []string{`: Invalid value: each list item needs its key`}},
		{`{spec: {containers: [{name: app, volumeMounts: [{name: a}]}]}}`, []string{`: Invalid value: each list item needs its key`}},
	} {
		errs := Validate(field.NewPath("spec", "podTemplate"), overlayOf(t, c.overlay), OfWebApp(app))
		if len(errs) != len(c.want) {
			t.Errorf("%s: %d errors, want %d: %v", c.overlay, len(errs), len(c.want), errs)
			continue
		}
		for i, err := range errs {
			if !strings.HasPrefix(err.Error(), "spec.podTemplate"+c.want[i]) {
				t.Errorf("%s: error %d is %q, want spec.podTemplate%s", c.overlay, i, err, c.want[i])
			}
		}
	}
}
