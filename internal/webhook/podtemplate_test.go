package webhook_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

// A pod template is bound by its own rules, by the security profile and by the policies of the namespace.
func TestPodTemplate(t *testing.T) {
	u, namespace := newUser(t), env.Namespace(t)
	newPolicy(t, u, namespace, appsv1.WebAppPolicySpec{
		Action: appsv1.ActionEnforce, AllowedRegistries: []string{"docker.io/"}, RequireLimits: true, RequireSecurityProfile: appsv1.ProfileBaseline,
	})
	sidecar := func(image, more string) string {
		return `{"spec": {"containers": [{"name": "proxy", "image": "` + image + `"` + more + `}]}}`
	}
	const limits = `, "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}`
	for _, c := range []struct {
		profile             appsv1.SecurityProfile
		podTemplate, reject string // reject is part of the error; "" if the WebApp is accepted
	}{
		{"Restricted", sidecar("envoy:1", limits), ""},
		{"Baseline", `{"spec": {"contaners": []}}`, `spec.podTemplate.spec.contaners: Forbidden: unknown field`},
		{"Baseline", sidecar("evil.example/envoy:1", limits), `spec.podTemplate.spec.containers[proxy].image: Invalid value: "evil.example/envoy:1": allowedRegistries`},
		{"Baseline", sidecar("envoy:1", ""), `spec.podTemplate.spec.containers[proxy].resources.limits.memory: Required value: requireLimits`},
		{"Baseline", `{"spec": {"volumes": [{"name": "a", "image": {"reference": "evil.example/a:1"}}]}}`, `spec.podTemplate.spec.volumes[a].image.reference: Invalid value`},
		{"Baseline", `{"spec": {"hostNetwork": true}}`, `violates the security profile Baseline: host namespaces`},
		{"Baseline", `{"spec": {"volumes": [{"name": "a", "hostPath": {"path": "/"}}]}}`, `requireSecurityProfile of WebAppPolicy`},
		{"Restricted", sidecar("envoy:1", limits+`, "securityContext": {"runAsUser": 0}`), `violates the security profile Restricted: runAsUser=0`},
		{"Restricted", `{"spec": {"containers": [{"name": "app", "securityContext": {"allowPrivilegeEscalation": true}}]}}`, `allowPrivilegeEscalation`},
	} {
		app := newApp(namespace, "web")
		app.Spec.SecurityProfile, app.Spec.PodTemplate = c.profile, &runtime.RawExtension{Raw: []byte(c.podTemplate)}
		app.Spec.Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}
		err := u.Create(t.Context(), app, client.DryRunAll)
		if c.reject == "" && err != nil || c.reject != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.reject)) {
			t.Errorf("%s %s: %v, want %q", c.profile, c.podTemplate, err, c.reject)
		}
	}
}

// Custom is an exception for spec.securityContext, not for what a pod template adds.
func TestPodTemplate_custom(t *testing.T) {
	u, namespace := newUser(t), env.Namespace(t)
	app := newApp(namespace, "web")
	app.Spec.SecurityProfile = appsv1.ProfileCustom
	eventually(t, "create", func() error { return u.Create(t.Context(), app) })
	patch := func(podTemplate string) error {
		return u.Patch(t.Context(), app, client.RawPatch(types.MergePatchType, []byte(`{"spec": {"podTemplate": `+podTemplate+`}}`)))
	}
	if err := patch(`{"spec": {"hostPID": true}}`); !apierrors.IsInvalid(err) {
		t.Errorf("a host namespace: %v, want Invalid", err)
	}
	if err := patch(`{"spec": {"containers": [{"name": "proxy", "image": "envoy:1", "securityContext": {"runAsUser": 0}}]}}`); err != nil {
		t.Errorf("a sidecar that runs as root: %v", err)
	}
}

func TestPodTemplate_postgreSQL(t *testing.T) {
	u, namespace := newUser(t), env.Namespace(t)
	newPolicy(t, u, namespace, appsv1.WebAppPolicySpec{Action: appsv1.ActionEnforce, AllowedRegistries: []string{"docker.io/"}})
	for podTemplate, reject := range map[string]string{
		`{"spec": {"containers": [{"name": "exporter", "image": "exporter:1"}]}}`:              "",
		`{"spec": {"containers": [{"name": "exporter", "image": "evil.example/exporter:1"}]}}`: "spec.podTemplate.spec.containers[exporter].image: Invalid value",
		`{"spec": {"contaners": []}}`: "spec.podTemplate.spec.contaners: Forbidden: unknown field",
	} {
		pg := &databasev1alpha1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "db"}}
		pg.Spec.Version, pg.Spec.Storage, pg.Spec.PodTemplate = "16", resource.MustParse("1Gi"), &runtime.RawExtension{Raw: []byte(podTemplate)}
		err := u.Create(t.Context(), pg, client.DryRunAll)
		if reject == "" && err != nil || reject != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), reject)) {
			t.Errorf("%s: %v, want %q", podTemplate, err, reject)
		}
	}
}
