// Package manifests_test checks what is shipped: the generated bundle, the catalog and what they are made from.
package manifests_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/api/pkg/validation"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

const root = "../.."

func bundle(t *testing.T) *manifests.Bundle {
	t.Helper()
	b, err := manifests.GetBundleFromDir(filepath.Join(root, "bundle"))
	if err != nil {
		t.Fatalf("read bundle/: %v; run `make bundle`", err)
	}
	return b
}

// The same validators as operator-sdk's, of a newer version.
func TestBundlePassesTheValidators(t *testing.T) {
	b := bundle(t)
	validators := append(slices.Clone(validation.DefaultBundleValidators),
		validation.OperatorHubV2Validator, validation.StandardCapabilitiesValidator, validation.StandardCategoriesValidator,
		validation.AlphaDeprecatedAPIsValidator, validation.GoodPracticesValidator)
	for _, result := range validators.Validate(b.ObjectsToValidate()...) {
		for _, finding := range slices.Concat(result.Errors, result.Warnings) {
			t.Errorf("%s: %s", result.Name, finding.Error())
		}
	}
}

// A right that is wider than needed is found here, before a user grants it.
func TestOperatorHasNoMoreRightsThanItNeeds(t *testing.T) {
	strategy := bundle(t).CSV.Spec.InstallStrategy.StrategySpec
	if len(strategy.ClusterPermissions) != 1 || len(strategy.Permissions) != 1 {
		t.Fatalf("%d cluster-wide and %d namespaced sets of permissions, want one each", len(strategy.ClusterPermissions), len(strategy.Permissions))
	}
	for _, rule := range slices.Concat(strategy.ClusterPermissions[0].Rules, strategy.Permissions[0].Rules) {
		for _, finding := range tooMuch(rule) {
			t.Errorf("rule on %v %v: %s", rule.APIGroups, rule.Resources, finding)
		}
	}
}

// writers are the verbs that change something, and written which of them the operator has on kinds that mostly belong to
// others: of Secrets and ConfigMaps it writes its own, and it replaces pods of databases, whose agents label them.
var (
	writers = []string{"create", "update", "patch", "delete", "deletecollection"}
	written = map[string][]string{
		"secrets": {"create", "patch", "delete"}, "configmaps": {"create", "patch", "delete"}, "pods": {"patch", "delete"},
		"namespaces": nil, "customresourcedefinitions": nil,
	}
)

func tooMuch(rule rbacv1.PolicyRule) []string {
	var findings []string
	for _, words := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs} {
		if slices.Contains(words, "*") {
			findings = append(findings, "a wildcard")
		}
	}
	for _, verb := range rule.Verbs {
		if slices.Contains([]string{"escalate", "bind", "impersonate"}, verb) {
			findings = append(findings, "the verb "+verb)
		}
	}
	for _, resource := range rule.Resources {
		if slices.Contains([]string{"pods/exec", "pods/attach", "pods/portforward", "nodes/proxy", "serviceaccounts/token"}, resource) {
			findings = append(findings, resource)
		}
		allowed, watched := written[resource]
		for _, verb := range rule.Verbs {
			if watched && slices.Contains(writers, verb) && !slices.Contains(allowed, verb) {
				findings = append(findings, verb+" on "+resource)
			}
		}
	}
	return findings
}

func TestRightsThatAreTooWideAreNoticed(t *testing.T) {
	for want, rule := range map[string]rbacv1.PolicyRule{
		"a wildcard":      {APIGroups: []string{"apps"}, Resources: []string{"*"}, Verbs: []string{"get"}},
		"the verb bind":   {APIGroups: []string{"rbac.authorization.k8s.io"}, Resources: []string{"roles"}, Verbs: []string{"bind"}},
		"pods/exec":       {APIGroups: []string{""}, Resources: []string{"pods/exec"}, Verbs: []string{"create"}},
		"nothing, really": {APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch", "patch"}},

		"update on secrets":        {APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "update"}},
		"patch on namespaces":      {APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "patch"}},
		"deletecollection on pods": {APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"deletecollection"}},
	} {
		findings := strings.Join(tooMuch(rule), "; ")
		if wantNone := want == "nothing, really"; wantNone && findings != "" || !wantNone && findings != want {
			t.Errorf("findings %q for %v, want %s", findings, rule, want)
		}
	}
}

// Pod Security "restricted", a read-only root and bounded resources.
func TestOperatorIsConfined(t *testing.T) {
	deployment := bundle(t).CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0]
	pod := deployment.Spec.Template.Spec
	if pod.HostNetwork || pod.HostPID || pod.HostIPC {
		t.Error("the pod shares a namespace of the host")
	}
	want := &corev1.PodSecurityContext{
		RunAsNonRoot: new(true), RunAsUser: new(int64(65532)), RunAsGroup: new(int64(65532)),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	if diff := cmp.Diff(want, pod.SecurityContext); diff != "" {
		t.Errorf("security context of the pod (-want +got):\n%s", diff)
	}
	for _, c := range pod.Containers {
		want := &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}
		if diff := cmp.Diff(want, c.SecurityContext); diff != "" {
			t.Errorf("security context of container %s (-want +got):\n%s", c.Name, diff)
		}
		for _, resource := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, limit := c.Resources.Requests[resource], c.Resources.Limits[resource]
			if request.IsZero() || request.Cmp(limit) > 0 {
				t.Errorf("container %s: %s needs a request, and a limit that is not below it", c.Name, resource)
			}
		}
	}
	if *deployment.Spec.Replicas < 2 {
		t.Errorf("%d replicas: one must be left while the other is replaced", *deployment.Spec.Replicas)
	}
}

// Conversion webhooks will need this mode, and a change of modes breaks upgrades.
func TestBundleSupportsAllNamespacesOnly(t *testing.T) {
	for _, mode := range bundle(t).CSV.Spec.InstallModes {
		if want := mode.Type == v1alpha1.InstallModeTypeAllNamespaces; mode.Supported != want {
			t.Errorf("install mode %s: supported %t, want %t", mode.Type, mode.Supported, want)
		}
	}
}

// OLM takes port 443 for the container's where the bundle does not say 9443.
func TestWebhooksLeadToTheManager(t *testing.T) {
	csv := bundle(t).CSV
	if len(csv.Spec.WebhookDefinitions) == 0 {
		t.Fatal("no webhook in the bundle")
	}
	for _, hook := range csv.Spec.WebhookDefinitions {
		if hook.DeploymentName != "fettle-controller-manager" || hook.ContainerPort != 443 || hook.TargetPort == nil || hook.TargetPort.IntValue() != 9443 {
			t.Errorf("webhook %s leads to %s, ports %d and %v", hook.GenerateName, hook.DeploymentName, hook.ContainerPort, hook.TargetPort)
		}
		for _, rule := range hook.Rules {
			for _, operation := range rule.Operations {
				if operation == "DELETE" || operation == "*" {
					t.Errorf("webhook %s gets in the way of deletion", hook.GenerateName)
				}
			}
		}
	}
}

// One version, one image and one opm, in every file that names them.
func TestVersionsAgree(t *testing.T) {
	csv := bundle(t).CSV
	image := csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers[0].Image
	if got := csv.Annotations["containerImage"]; got != image {
		t.Errorf("annotation containerImage is %s, the Deployment runs %s", got, image)
	}
	if len(csv.Spec.RelatedImages) != 1 || csv.Spec.RelatedImages[0].Image != image {
		t.Errorf("relatedImages %v, want %s: mirrors of catalogs go by them", csv.Spec.RelatedImages, image)
	}
	name, tag, _ := strings.Cut(image, ":")
	if csv.Name != "fettle."+tag {
		t.Errorf("the CSV is called %s, the image's tag is %s", csv.Name, tag)
	}
	for file, want := range map[string]string{
		"catalog/fettle/bundles/" + tag + ".yaml":  "image: " + name + "-bundle:" + tag,
		"catalog/fettle/channels.yaml":             "- name: fettle." + tag,
		"catalog-templates/basic.yaml":             "image: " + name + "-bundle:" + tag,
		"config/subscription/catalog_source.yaml":  "image: " + name + "-catalog:" + tag,
		"config/manager/kustomization.yaml":        "newTag: " + tag,
		"catalog.Dockerfile":                       "FROM quay.io/operator-framework/opm:" + required(t, "hack", "operator-registry"),
		"config/scorecard/patches/olm.config.yaml": "scorecard-test:" + required(t, "hack/tools/operator-sdk", "operator-sdk"),
	} {
		if text := read(t, file); !strings.Contains(text, want) {
			t.Errorf("%s does not say %q", file, want)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// required is the version of a module of the operator-framework that the module in dir is pinned to.
func required(t *testing.T, dir, module string) string {
	t.Helper()
	for line := range strings.Lines(read(t, dir+"/go.mod")) {
		words := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(words) >= 2 && words[0] == "github.com/operator-framework/"+module {
			return words[1]
		}
	}
	t.Fatalf("%s/go.mod does not require %s", dir, module)
	return ""
}
