package v1alpha1_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

// created stores a manifest in a namespace of its own and returns what the API server then has.
func created(t *testing.T, u *unstructured.Unstructured) map[string]any {
	t.Helper()
	c := newClient(t)
	u.SetNamespace(env.Namespace(t))
	if err := c.Create(t.Context(), u, client.FieldValidation(metav1.FieldValidationIgnore)); err != nil {
		t.Fatal(err)
	}
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(u.GroupVersionKind())
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(u), stored); err != nil {
		t.Fatal(err)
	}
	return stored.Object
}

func normal(t *testing.T, v any) any {
	t.Helper()
	text, ok := v.(string)
	if !ok {
		raw, err := yaml.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		text = string(raw)
	}
	var out any
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

const defaults = `
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
deletionPolicy: Retain
`

func TestDefaults(t *testing.T) {
	for name, c := range map[string]struct{ spec, want string }{
		"smallest": {``, defaults},
		"parts": {`
autoGrow: {max: 9Gi}
synchronous: {}
replicas: 2
roles: [{name: a}]
databases: [{name: b}]
pgHBA: [{}]
lease: {leaseDurationSeconds: 30}
monitoring: {enabled: true}
tls: {issuerRef: {name: a}}`, defaults + `
autoGrow: {threshold: 80, step: 20%, max: 9Gi}
synchronous: {number: 1}
replicas: 2
roles: [{name: a, login: true, connectionLimit: -1}]
databases: [{name: b}]
pgHBA: [{method: scram-sha-256}]
lease: {leaseDurationSeconds: 30, renewDeadlineSeconds: 7, retryPeriodSeconds: 2}
monitoring: {enabled: true, interval: 30s}
tls: {issuerRef: {name: a, kind: Issuer, group: cert-manager.io}}`},
	} {
		t.Run(name, func(t *testing.T) {
			want := map[string]any{}
			for line := range strings.FieldsFuncSeq(c.want, func(r rune) bool { return r == '\n' }) { // later lines win
				maps.Copy(want, normal(t, line).(map[string]any))
			}
			if diff := cmp.Diff(any(want), normal(t, created(t, object(t, c.spec))["spec"])); diff != "" {
				t.Errorf("stored spec (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStatusRightAfterCreation(t *testing.T) {
	pg := &databasev1alpha1.PostgreSQL{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(created(t, object(t, "")), pg); err != nil {
		t.Fatal(err)
	}
	ready := pg.Status.Conditions[0]
	if ready.Type != "Ready" || ready.Status != metav1.ConditionUnknown || pg.Status.Phase != databasev1alpha1.PhasePending || pg.Status.Ready {
		t.Errorf("status %+v", pg.Status)
	}
}

// TestExamples stores manifests that people know from elsewhere; fields that are not there yet are left out, with a warning.
func TestExamples(t *testing.T) {
	for name, spec := range map[string]string{
		"my-postgres": `{version: "16", storage: "1Gi", replicas: 1, databaseName: myapp}`,
		"test-db":     `{version: "14", storage: "10Gi", replicas: 1}`,
		"my-db":       `{version: "15", storage: "10Gi", replicas: 3, backup: {enabled: true, schedule: "0 2 * * *", retention: "30d"}}`,
	} {
		u := object(t, spec)
		u.SetName(name)
		if _, kept := created(t, u)["spec"].(map[string]any)["backup"]; kept {
			t.Errorf("%s: spec.backup was stored", name)
		}
	}
}

func TestSamples(t *testing.T) {
	files, err := filepath.Glob("../../../config/samples/database_*.yaml")
	if err != nil || len(files) != 3 {
		t.Fatalf("samples: %v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &u.Object); err != nil {
			t.Fatal(err)
		}
		u.SetNamespace("default")
		if err := try(t, newClient(t), u); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestUnknownFields(t *testing.T) {
	err := try(t, newClient(t), object(t, "replica: 3"))
	if err == nil || !strings.Contains(err.Error(), `unknown field "spec.replica"`) {
		t.Error(err)
	}
}
