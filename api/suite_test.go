// Package api_test holds what the API server makes of manifests of Fettle's kinds: rules, bounds, defaults and status.
package api_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/fettle-dev/fettle/internal/testenv"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	testenv.Main(m, &env, testenv.Options{Fast: true})
}

// kind is a kind with its cases.
type kind struct {
	name, apiVersion string
	crd              string
	object           string // name of the object
	smallest         string // the smallest spec that is accepted
	cluster          bool   // has no namespace
	rules            []rule
	changes          []change
	names            map[string]bool // whether an object may have this name
	nameMessage      string
}

const (
	label63 = "metadata.name: must be a DNS label of at most 63 characters"
	label52 = "metadata.name: must be a DNS label of at most 52 characters"
)

var kinds = []kind{
	{
		name: "WebApp", apiVersion: "apps.fettle.dev/v1", crd: "apps.fettle.dev_webapps", object: "web",
		smallest: `image: nginx`, rules: webAppRules, nameMessage: label63, names: map[string]bool{
			"web": true, "a" + strings.Repeat("b", 62): true, "web-1": true, "a" + strings.Repeat("b", 63): false, "1web": false, "web.app": false,
		},
	},
	{
		name: "WebAppPolicy", apiVersion: "apps.fettle.dev/v1", crd: "apps.fettle.dev_webapppolicies", object: "web", cluster: true,
		smallest: `{namespaceSelector: {}, maxReplicas: 10}`, rules: webAppPolicyRules,
	},
	{
		name: "AppConfig", apiVersion: "config.fettle.dev/v1", crd: "config.fettle.dev_appconfigs", object: "shop",
		smallest: `{application: shop, environment: dev, config: {A: "1"}}`, rules: appConfigRules, changes: appConfigChanges,
		nameMessage: label63, names: map[string]bool{
			"shop": true, "1shop": true, "a" + strings.Repeat("b", 62): true, "a" + strings.Repeat("b", 63): false, "shop.web": false,
		},
	},
	{
		name: "PostgreSQL", apiVersion: "database.fettle.dev/v1alpha1", crd: "database.fettle.dev_postgresqls", object: "demo",
		smallest: `{version: "16", storage: 1Gi}`, rules: slices.Concat(postgreSQLRules, recoveryRules, scheduleRules("spec.backup", postgreSQLBackup),
			verifyRules("spec.backup.verify", func(v string) string { return postgreSQLBackup("verify: " + v) }),
			destinationRules("spec.backup.destination", func(d string) string { return postgreSQLBackup("destination: " + d) })),
		changes:     postgreSQLChanges,
		nameMessage: label52, names: map[string]bool{
			"pg": true, "a" + strings.Repeat("b", 51): true, "pg-1": true, "a" + strings.Repeat("b", 52): false, "1pg": false, "pg.app": false,
		},
	},
	appStack, ecommercePlatform,
	{
		name: "Backup", apiVersion: "backup.fettle.dev/v1alpha1", crd: "backup.fettle.dev_backups", object: "shop",
		smallest: backupSmallest, rules: backupRules, changes: backupChanges,
		nameMessage: "metadata.name: must be a DNS label of at most 40 characters", names: backupNames(40),
	},
	{
		name: "BackupRun", apiVersion: "backup.fettle.dev/v1alpha1", crd: "backup.fettle.dev_backupruns", object: "shop-1",
		smallest: `{backup: shop}`, rules: backupRunRules, changes: backupRunChanges,
		nameMessage: "metadata.name: must be a DNS label of at most 57 characters", names: backupNames(57),
	},
	{
		name: "Restore", apiVersion: "backup.fettle.dev/v1alpha1", crd: "backup.fettle.dev_restores", object: "shop",
		smallest: restoreSmallest, rules: restoreRules, changes: restoreChanges,
		nameMessage: "metadata.name: must be a DNS label of at most 49 characters", names: backupNames(49),
	},
	{
		name: "VoteConfig", apiVersion: "voting.fettle.dev/v1alpha1", crd: "voting.fettle.dev_voteconfigs", object: "vote",
		smallest: `options: [{id: a, label: Cats}, {id: b, label: Dogs}]`, rules: voteConfigRules, changes: voteConfigChanges,
		nameMessage: label63, names: map[string]bool{
			"cats-vs-dogs": true, "2": true, strings.Repeat("a", 63): true, strings.Repeat("a", 64): false, "v2.vote": false,
		},
	},
}

func kindNamed(name string) kind {
	return kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })]
}

func newClient(t *testing.T) client.Client {
	t.Helper()
	c, err := client.New(env.Admin, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// parse reads YAML with numbers as they come from a file.
func parse[T any](t *testing.T, text string) (out T) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out
}

// object is a manifest of the kind: spec is what to change in the smallest one that is accepted; a null removes.
func object(t *testing.T, k kind, spec string) *unstructured.Unstructured {
	t.Helper()
	content := parse[map[string]any](t, k.smallest)
	for key, value := range parse[map[string]any](t, spec) {
		content[key] = value
		if value == nil {
			delete(content, key)
		}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": content}}
	u.SetAPIVersion(k.apiVersion)
	u.SetKind(k.name)
	u.SetName(k.object)
	if !k.cluster {
		u.SetNamespace("default")
	}
	return u
}

// plain has numbers as they come from a file.
func plain(t *testing.T, u *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	content, err := json.Marshal(u.Object)
	if err != nil {
		t.Fatal(err)
	}
	out := &unstructured.Unstructured{}
	if err := json.Unmarshal(content, &out.Object); err != nil {
		t.Fatal(err)
	}
	return out
}

// try makes the API server validate a manifest without storing it.
func try(t *testing.T, c client.Client, u *unstructured.Unstructured) error {
	t.Helper()
	return c.Create(t.Context(), plain(t, u), client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
}

// created stores a manifest where it is alone, without the fields that the schema does not know, and returns what the API server then has.
func created(t *testing.T, k kind, u *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	if namespace := env.Namespace(t); k.cluster {
		u.SetName(namespace) // as unique
	} else {
		u.SetNamespace(namespace)
	}
	stored := plain(t, u)
	if err := newClient(t).Create(t.Context(), stored, client.FieldValidation(metav1.FieldValidationIgnore)); err != nil {
		t.Fatal(err)
	}
	return stored
}

// kubernetesTypes are the fields below which the schema is Kubernetes' own.
var kubernetesTypes = []string{
	".spec.affinity", ".spec.autoscaling.behavior", ".spec.env[].valueFrom", ".spec.envFrom[]", ".spec.networkPolicy.from[]",
	".spec.networkPolicy.metricsFrom[]", ".spec.podSecurityContext", ".spec.rollout.selector", ".spec.securityContext", ".spec.tolerations[]",
	".spec.topologySpreadConstraints[]", ".spec.volumeMounts[]", ".spec.volumes[].configMap", ".spec.volumes[].emptyDir",
	".spec.volumes[].persistentVolumeClaim", ".spec.volumes[].projected", ".spec.volumes[].secret", ".spec.resources.claims",
	".spec.resources.limits", ".spec.resources.requests", ".spec.namespaceSelector",
}

// walk visits all of a kind's spec that this project wrote, with paths such as .spec.volumes[].name, and the rules of the whole object.
func walk(t *testing.T, k kind, visit func(string, *apiextensionsv1.JSONSchemaProps)) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "config", "crd", "bases", k.crd+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	crd := parse[apiextensionsv1.CustomResourceDefinition](t, string(text))
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	walkSchema(&spec, ".spec", visit)
	visit("", &apiextensionsv1.JSONSchemaProps{XValidations: crd.Spec.Versions[0].Schema.OpenAPIV3Schema.XValidations})
}

func walkSchema(s *apiextensionsv1.JSONSchemaProps, path string, visit func(string, *apiextensionsv1.JSONSchemaProps)) {
	if slices.Contains(kubernetesTypes, path) {
		return
	}
	visit(path, s)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		walkSchema(&property, path+"."+name, visit)
	}
	if s.Items != nil {
		walkSchema(s.Items.Schema, path+"[]", visit)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		walkSchema(s.AdditionalProperties.Schema, path+"{}", visit)
	}
}
