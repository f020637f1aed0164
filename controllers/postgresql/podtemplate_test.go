package postgresql

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/podsecurity"
	"github.com/fettle-dev/fettle/internal/podtemplate"
)

func withPodTemplate(t *testing.T, name, overlay string) *databasev1alpha1.PostgreSQL {
	t.Helper()
	pg := ofTestdata(t, name)
	pg.Spec.PodTemplate = &runtime.RawExtension{Raw: []byte(overlay)}
	return pg
}

// TestPodTemplate_rules checks that the rules protect every volume, mount, variable and container of the generated pod.
func TestPodTemplate_rules(t *testing.T) {
	rules := podtemplate.OfPostgreSQL()
	for _, name := range []string{"everything", "copied"} {
		pod := apply.Convert[corev1.PodSpec](podTemplate(ofTestdata(t, name), testAgent, 1).Spec)
		for _, v := range pod.Volumes {
			if _, ok := rules.Volumes[v.Name]; !ok {
				t.Errorf("volume %s can be replaced", v.Name)
			}
		}
		for _, m := range pod.Containers[0].VolumeMounts {
			_, volume := rules.Volumes[m.Name]
			if _, ok := rules.MountPaths[m.MountPath]; !ok || !volume {
				t.Errorf("the mount of %s at %s can be replaced", m.Name, m.MountPath)
			}
		}
		for _, e := range pod.Containers[0].Env {
			if _, ok := rules.Env[e.Name]; !ok {
				t.Errorf("variable %s can be replaced", e.Name)
			}
		}
		if pod.Containers[0].Name != rules.Main || pod.InitContainers[0].Name != rules.Containers[0] {
			t.Errorf("the rules are for containers %s and %v", rules.Main, rules.Containers)
		}
	}
}

func TestPodTemplate_merged(t *testing.T) {
	const overlay = `{"metadata": {"labels": {"team": "shop"}}, "spec": {"dnsPolicy": "Default",
		"volumes": [{"name": "ca", "configMap": {"name": "ca"}}], "initContainers": [{"name": "wait", "image": "busybox"}],
		"containers": [{"name": "exporter", "image": "exporter:1"},
			{"name": "postgres", "env": [{"name": "TZ", "value": "UTC"}], "volumeMounts": [{"name": "ca", "mountPath": "/ca"}]}]}}`
	pg := withPodTemplate(t, "one", overlay)
	if err := rejectedPodTemplate(pg); err != nil {
		t.Fatal(err)
	}
	template := podTemplate(pg, testAgent, 1)
	pod := apply.Convert[corev1.PodSpec](template.Spec)
	if violations, err := podsecurity.Violations(pod, appsv1.ProfileRestricted); err != nil || len(violations) > 0 {
		t.Errorf("violations of Pod Security: %v, %v", violations, err)
	}
	if template.Labels["team"] != "shop" || pod.DNSPolicy != corev1.DNSDefault ||
		pod.Containers[0].Name != mainContainer || pod.Containers[1].Name != "exporter" || pod.InitContainers[0].Name != initContainer || pod.InitContainers[1].Name != "wait" {
		t.Errorf("the pod template is %+v", template)
	}
	before, after := ofTestdata(t, "one"), pg
	if revisionOf(before) == revisionOf(after) {
		t.Error("a podTemplate does not replace the pods")
	}
	reordered := withPodTemplate(t, "one", `{"spec": null, `+overlay[1:])
	if revisionOf(reordered) != revisionOf(after) {
		t.Error("another text of the same podTemplate replaces the pods")
	}
	for _, empty := range []string{`null`, `{}`, `{"spec": null}`} {
		same := withPodTemplate(t, "one", empty)
		was, _ := json.Marshal(podTemplate(before, testAgent, 1))
		is, _ := json.Marshal(podTemplate(same, testAgent, 1))
		if revisionOf(same) != revisionOf(before) || string(was) != string(is) {
			t.Errorf("podTemplate %s replaces the pods", empty)
		}
	}
}

// TestInherited checks pods, Secrets, the Lease and PVCs. The applier passes metadata to all other children.
func TestInherited(t *testing.T) {
	pg := ofTestdata(t, "one")
	before := revisionOf(pg)
	pg.Spec.InheritedMetadata = &fettlev1.InheritedMetadata{}
	if revisionOf(pg) != before || !inherits(pg, &metav1.ObjectMeta{}) {
		t.Error("no metadata replace the pods, or lack at a PVC")
	}
	pg.Spec.InheritedMetadata.Labels = map[string]string{"team": "shop", "app": "other"}
	pg.Spec.InheritedMetadata.Annotations = map[string]string{"example.com/a": "b"}
	template := podTemplate(pg, testAgent, 1)
	if revisionOf(pg) == before || template.Labels["team"] != "shop" || template.Labels["app"] != pg.Name || template.Annotations["example.com/a"] != "b" {
		t.Errorf("the pods have the labels %v and the annotations %v, revision %s", template.Labels, template.Annotations, revisionOf(pg))
	}
	secret, lease := (&credential{role: "app", secret: "demo-credentials"}).object(pg, nil), newLease(pg)
	for _, object := range []metav1.Object{secret, lease} {
		if object.GetLabels()["team"] != "shop" || object.GetAnnotations()["example.com/a"] != "b" {
			t.Errorf("%T has the labels %v and the annotations %v", object, object.GetLabels(), object.GetAnnotations())
		}
	}
	if inherits(pg, &metav1.ObjectMeta{Labels: labels(pg)}) {
		t.Error("a PVC without the label counts as labeled")
	}
	if claim := claimTemplate(pg, 1, resource.MustParse("1Gi")); claim.Labels["team"] != "" {
		t.Error("the template of the PVCs is immutable, and has the label")
	}
}

func TestPodTemplate_rejected(t *testing.T) {
	for overlay, want := range map[string]string{
		`{"spec": {"containers": [{"name": "postgres", "image": "other"}]}}`:                                                "spec.podTemplate.spec.containers[0].image: Forbidden",
		`{"spec": {"containers": [{"name": "postgres", "livenessProbe": {"exec": {"command": ["true"]}}}]}}`:                "containers[0].livenessProbe: Forbidden",
		`{"spec": {"containers": [{"name": "postgres", "command": ["sh"]}]}}`:                                               "containers[0].command: Forbidden",
		`{"spec": {"containers": [{"name": "postgres", "env": [{"name": "PGDATA", "value": "/a"}]}]}}`:                      `env[0].name: Invalid value: "PGDATA": is used by Fettle`,
		`{"spec": {"containers": [{"name": "postgres", "volumeMounts": [{"name": "a", "mountPath": "/data"}]}]}}`:           `mountPath: Invalid value: "/data"`,
		`{"spec": {"containers": [{"name": "a", "image": "a", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]}}`: `volume "data" is Fettle's`,
		`{"spec": {"initContainers": [{"name": "install", "image": "a"}]}}`:                                                 `container "install" is Fettle's`,
		`{"spec": {"volumes": [{"name": "data", "emptyDir": {}}]}}`:                                                         `volumes[0].name: Invalid value: "data"`,
		`{"spec": {"volumes": [{"name": "a", "hostPath": {"path": "/"}}]}}`:                                                 `volume "a" uses restricted volume type "hostPath"`,
		`{"spec": {"containers": [{"name": "a", "image": "a", "securityContext": {"runAsUser": 0}}]}}`:                      "violates the security profile Restricted",
		`{"spec": {"hostNetwork": true, "shareProcessNamespace": true, "securityContext": {}, "subdomain": "a"}}`:           "spec.podTemplate.spec.shareProcessNamespace: Forbidden",
		`{"metadata": {"labels": {"fettle.dev/role": "primary"}}}`:                                                          "labels[fettle.dev/role]: Forbidden",
		`{"spec": {"containers": [{"name": "postgres", "envFrom": [{"secretRef": {"name": "a"}}], "resources": {}}]}}`:      "containers[0].envFrom: Forbidden",
	} {
		pg := withPodTemplate(t, "one", overlay)
		if err := rejectedPodTemplate(pg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", overlay, err, want)
		}
	}
}
