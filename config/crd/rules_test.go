// Package crd_test holds the rules that every CRD of Fettle keeps, and reads the generated files to see that they do.
package crd_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// kubernetesTypes are fields whose contents Kubernetes defines, as "Kind.path". The field itself keeps the rules; what
// is below it is Kubernetes' to bound. Each was reviewed: the API server checks it again when the child is applied.
var kubernetesTypes = []string{
	"Backup.spec.pod.resources",
	"Backup.spec.pod.tolerations[]",
	"Backup.status.conditions[]",
	"BackupRun.status.conditions[]",
	"Restore.spec.pod.resources",
	"Restore.spec.pod.tolerations[]",
	"Restore.status.conditions[]",
	"PostgreSQL.spec.affinity",
	"PostgreSQL.spec.networkPolicy.from[]",
	"PostgreSQL.spec.networkPolicy.metricsFrom[]",
	"PostgreSQL.spec.resources",
	"PostgreSQL.spec.tolerations[]",
	"PostgreSQL.spec.topologySpreadConstraints[]",
	"PostgreSQL.status.conditions[]",
	"AppConfig.spec.rollout.selector",
	"AppStack.spec.components[].mySQL.resources",
	"AppStack.status.conditions[]",
	"EcommercePlatform.status.conditions[]",
	"WebApp.spec.affinity",
	"WebApp.spec.autoscaling.behavior",
	"WebApp.spec.env[].valueFrom",
	"WebApp.spec.envFrom[]",
	"WebApp.spec.networkPolicy.from[]",
	"WebApp.spec.podSecurityContext",
	"WebApp.spec.resources",
	"WebApp.spec.securityContext",
	"WebApp.spec.tolerations[]",
	"WebApp.spec.volumeMounts[]",
	"WebApp.spec.volumes[].configMap",
	"WebApp.spec.volumes[].emptyDir",
	"WebApp.spec.volumes[].persistentVolumeClaim",
	"WebApp.spec.volumes[].projected",
	"WebApp.spec.volumes[].secret",
	"WebApp.status.conditions[]",
	"WebAppPolicy.spec.namespaceSelector",
	"WebAppPolicy.status.conditions[]",
}

// openTypes are fields whose contents are free, as "Kind.path". Each was reviewed: who reads them refuses what it does not know.
var openTypes = []string{
	"AppConfig.spec.schema.config",  // a JSON Schema; internal/render bounds its size
	"AppConfig.spec.schema.files{}", // the same
	"WebApp.spec.podTemplate",       // internal/podtemplate decodes it strictly, at admission and before it is applied
	"PostgreSQL.spec.podTemplate",   // the same

	"AppStack.spec.components[].webApp",      // internal/stack decodes it strictly, and the API server checks the child object
	"AppStack.spec.components[].postgreSQL",  // the same
	"AppStack.spec.components[].config",      // the same
	"EcommercePlatform.spec.frontend.webApp", // the same
	"EcommercePlatform.spec.backend.webApp",  // the same
}

func TestGeneratedCRDsKeepTheRules(t *testing.T) {
	files, err := filepath.Glob("bases/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no CRDs in config/crd/bases (%v); run `make manifests`", err)
	}
	met := map[string]bool{}
	for _, file := range files {
		crd := read(t, file)
		for _, version := range crd.Spec.Versions {
			t.Run(crd.Spec.Names.Kind+"/"+version.Name, func(t *testing.T) {
				w := &walker{kind: crd.Spec.Names.Kind, met: met}
				w.version(version)
				for _, finding := range w.findings {
					t.Error(finding)
				}
			})
		}
	}
	for _, path := range slices.Concat(kubernetesTypes, openTypes) {
		if !met[path] {
			t.Errorf("%s is listed as an exception, which no CRD has any more: remove it", path)
		}
	}
}

func read(t *testing.T, file string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return crd
}

// walker visits the fields of one version of a CRD and notes each broken rule in a sentence.
type walker struct {
	kind     string
	met      map[string]bool // the exceptions that were found
	findings []string
}

func (w *walker) note(path, format string, args ...any) {
	w.findings = append(w.findings, w.kind+"."+path+": "+fmt.Sprintf(format, args...))
}

func (w *walker) version(v apiextensionsv1.CustomResourceDefinitionVersion) {
	if v.Subresources == nil || v.Subresources.Status == nil {
		w.note("status", "is not a subresource; add +kubebuilder:subresource:status")
	}
	w.columns(v.AdditionalPrinterColumns)
	root := v.Schema.OpenAPIV3Schema
	if root.Description == "" {
		w.note("", "has no description")
	}
	for _, part := range []string{"spec", "status"} {
		schema, ok := root.Properties[part]
		if !ok {
			w.note(part, "is missing")
			continue
		}
		w.field(part, schema)
	}
	w.conditions(root.Properties["status"].Properties["conditions"])
}

// commonColumns are the first columns of every kind, and the one for -o wide.
var commonColumns = []apiextensionsv1.CustomResourceColumnDefinition{
	{Name: "Ready", Type: "string", JSONPath: `.status.conditions[?(@.type=="Ready")].status`},
	{Name: "Status", Type: "string", JSONPath: ".status.phase"},
	{Name: "Reason", Type: "string", JSONPath: `.status.conditions[?(@.type=="Ready")].reason`},
	{Name: "Message", Type: "string", Priority: 1, JSONPath: `.status.conditions[?(@.type=="Ready")].message`},
}

// columns holds that `kubectl get` of every kind starts with the same columns, and has the message with -o wide.
func (w *walker) columns(columns []apiextensionsv1.CustomResourceColumnDefinition) {
	if n := len(commonColumns) - 1; len(columns) < n || !slices.Equal(columns[:n], commonColumns[:n]) {
		w.note("", "the first columns of `kubectl get` are not Ready, Status and Reason; see +kubebuilder:printcolumn of the other kinds")
	}
	if !slices.Contains(columns, commonColumns[len(commonColumns)-1]) {
		w.note("", "`kubectl get -o wide` has no column Message; add +kubebuilder:printcolumn")
	}
}

func (w *walker) conditions(schema apiextensionsv1.JSONSchemaProps) {
	if schema.XListType == nil || *schema.XListType != "map" || !slices.Equal(schema.XListMapKeys, []string{"type"}) {
		w.note("status.conditions", "must be a list of type map with the key type")
	}
}

// field checks a named field, and what is below it.
func (w *walker) field(path string, schema apiextensionsv1.JSONSchemaProps) {
	if schema.Description == "" {
		w.note(path, "has no description; write a comment on the field")
	}
	w.value(path, schema)
}

// value checks what may stand in a field, an item of a list or a value of a map.
func (w *walker) value(path string, schema apiextensionsv1.JSONSchemaProps) {
	if full := w.kind + "." + path; slices.Contains(kubernetesTypes, full) || slices.Contains(openTypes, full) {
		w.met[full] = true
		return
	}
	switch schema.Type {
	case "array":
		if schema.MaxItems == nil {
			w.note(path, "is a list without a maximum; add +kubebuilder:validation:MaxItems")
		}
		if schema.XListType == nil {
			w.note(path, "is a list without a type; add +listType=map, set or atomic")
		}
		w.value(path+"[]", *schema.Items.Schema)
	case "string":
		if !bounded(schema) {
			w.note(path, "is a string without a maximum; add +kubebuilder:validation:MaxLength")
		}
	case "object":
		w.object(path, schema)
	}
}

func (w *walker) object(path string, schema apiextensionsv1.JSONSchemaProps) {
	if schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields {
		w.note(path, "keeps unknown fields, so that a misspelt one is not noticed")
	}
	if schema.AdditionalProperties != nil {
		if schema.MaxProperties == nil {
			w.note(path, "is a map without a maximum; add +kubebuilder:validation:MaxProperties")
		}
		if values := schema.AdditionalProperties.Schema; values != nil && values.Type != "string" {
			w.value(path+"{}", *values)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		w.field(strings.TrimPrefix(path+"."+name, "."), schema.Properties[name])
	}
}

// bounded says whether a string has a greatest length, by itself or by what it may be.
func bounded(schema apiextensionsv1.JSONSchemaProps) bool {
	return schema.MaxLength != nil || len(schema.Enum) > 0 || schema.Format == "date-time"
}
