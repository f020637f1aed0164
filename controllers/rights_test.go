package controllers_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/fettle-dev/fettle/test/audit"
)

// Reasons why the operator has rights that it does not use here.
const (
	// The API server rejects a Role with rights that its maker does not have.
	forAgents = "is given on to the agents of a PostgreSQL"
	// Some clusters guard blockOwnerDeletion by it (OwnerReferencesPermissionEnforcement); this API server does not.
	forOwners = "to own objects that hold up a foreground deletion"
	// See internal/apply: an object that no cache has is read once.
	whoOwns = "to say whose an object is that has the name of a child"
	// PodMonitors and PrometheusRules have unit tests and golden files; ServiceMonitors show the same way here.
	noCRDs = "the API server of these tests does not serve the kind"
	// See the scenario backup-schedule of test/faults, whose clock is set.
	atSlot = "to create a Restore at a slot of spec.verify.schedule, which takes 5 minutes to come"
	// See internal/cmd/admission.go.
	atStart = "the program does it once, before the controllers start"
)

// unused are those rights. Some are used where things happen at the same time.
var unused = map[audit.Right]string{
	{Verb: "create", Resource: "events"}:                       forAgents,
	{Verb: "watch", Resource: "leases.coordination.k8s.io"}:    forAgents,
	{Verb: "update", Resource: "leases.coordination.k8s.io"}:   forAgents,
	{Verb: "get", Resource: "pods"}:                            forAgents,
	{Verb: "patch", Resource: "pods"}:                          forAgents,
	{Verb: "get", Resource: "postgresqls.database.fettle.dev"}: forAgents,
	{Verb: "get", Resource: "backups.backup.fettle.dev"}:       forAgents,

	{Verb: "update", Resource: "appconfigs.config.fettle.dev", Subresource: "finalizers"}:           forOwners,
	{Verb: "update", Resource: "postgresqls.database.fettle.dev", Subresource: "finalizers"}:        forOwners,
	{Verb: "update", Resource: "backups.backup.fettle.dev", Subresource: "finalizers"}:              forOwners,
	{Verb: "update", Resource: "backupruns.backup.fettle.dev", Subresource: "finalizers"}:           forOwners,
	{Verb: "update", Resource: "restores.backup.fettle.dev", Subresource: "finalizers"}:             forOwners,
	{Verb: "update", Resource: "voteconfigs.voting.fettle.dev", Subresource: "finalizers"}:          forOwners,
	{Verb: "update", Resource: "appstacks.platform.fettle.dev", Subresource: "finalizers"}:          forOwners,
	{Verb: "update", Resource: "ecommerceplatforms.platform.fettle.dev", Subresource: "finalizers"}: forOwners,
	{Verb: "update", Resource: "webapps.apps.fettle.dev", Subresource: "finalizers"}:                forOwners,

	{Verb: "create", Resource: "restores.backup.fettle.dev"}: atSlot,

	{Verb: "get", Resource: "certificates.cert-manager.io"}:           whoOwns,
	{Verb: "get", Resource: "controllerrevisions.apps"}:               whoOwns,
	{Verb: "get", Resource: "horizontalpodautoscalers.autoscaling"}:   whoOwns,
	{Verb: "get", Resource: "httproutes.gateway.networking.k8s.io"}:   whoOwns,
	{Verb: "get", Resource: "ingresses.networking.k8s.io"}:            whoOwns,
	{Verb: "get", Resource: "networkpolicies.networking.k8s.io"}:      whoOwns,
	{Verb: "get", Resource: "rolebindings.rbac.authorization.k8s.io"}: whoOwns,
	{Verb: "get", Resource: "roles.rbac.authorization.k8s.io"}:        whoOwns,
	{Verb: "get", Resource: "poddisruptionbudgets.policy"}:            whoOwns,
	{Verb: "get", Resource: "services"}:                               whoOwns,
	{Verb: "get", Resource: "serviceaccounts"}:                        whoOwns,
	{Verb: "get", Resource: "servicemonitors.monitoring.coreos.com"}:  whoOwns,
	{Verb: "get", Resource: "statefulsets.apps"}:                      whoOwns,

	{Verb: "create", Resource: "podmonitors.monitoring.coreos.com"}:     noCRDs,
	{Verb: "delete", Resource: "podmonitors.monitoring.coreos.com"}:     noCRDs,
	{Verb: "get", Resource: "podmonitors.monitoring.coreos.com"}:        noCRDs,
	{Verb: "list", Resource: "podmonitors.monitoring.coreos.com"}:       noCRDs,
	{Verb: "patch", Resource: "podmonitors.monitoring.coreos.com"}:      noCRDs,
	{Verb: "watch", Resource: "podmonitors.monitoring.coreos.com"}:      noCRDs,
	{Verb: "create", Resource: "prometheusrules.monitoring.coreos.com"}: noCRDs,
	{Verb: "delete", Resource: "prometheusrules.monitoring.coreos.com"}: noCRDs,
	{Verb: "get", Resource: "prometheusrules.monitoring.coreos.com"}:    noCRDs,
	{Verb: "list", Resource: "prometheusrules.monitoring.coreos.com"}:   noCRDs,
	{Verb: "patch", Resource: "prometheusrules.monitoring.coreos.com"}:  noCRDs,
	{Verb: "watch", Resource: "prometheusrules.monitoring.coreos.com"}:  noCRDs,

	{Verb: "create", Resource: "validatingadmissionpolicies.admissionregistration.k8s.io"}:       atStart,
	{Verb: "get", Resource: "validatingadmissionpolicies.admissionregistration.k8s.io"}:          atStart,
	{Verb: "patch", Resource: "validatingadmissionpolicies.admissionregistration.k8s.io"}:        atStart,
	{Verb: "get", Resource: "validatingadmissionpolicybindings.admissionregistration.k8s.io"}:    atStart,
	{Verb: "create", Resource: "validatingadmissionpolicybindings.admissionregistration.k8s.io"}: atStart,
	{Verb: "patch", Resource: "validatingadmissionpolicybindings.admissionregistration.k8s.io"}:  atStart,

	{Verb: "get", Resource: "daemonsets.apps"}:                         "an annotation on a workload is written again if it has changed meanwhile: with Deployments here",
	{Verb: "delete", Resource: "backupruns.backup.fettle.dev"}:         "of the ended runs of a Backup, the oldest of more than 10 or 50",
	{Verb: "get", Resource: "namespaces"}:                              "admission asks for one that the cache does not have yet",
	{Verb: "delete", Resource: "httproutes.gateway.networking.k8s.io"}: "an Ingress instead of an HTTPRoute, or neither",
	{Verb: "patch", Resource: "events.events.k8s.io"}:                  "an event that comes again is counted, after minutes",
}

// sinceStart is what the operator asked of the API server since its first start.
var sinceStart requestCounts

// usedRights is the report entry with the rights that the operator of one process has used.
const usedRights = "rights used"

// reportRights adds what the operator of this process has used to the report, and fails if it lacks a right.
func reportRights(ctx context.Context) {
	GinkgoHelper()
	rights, err := auditRecorder.Rights(ctx, sinceStart.from, sinceStart.filter)
	Expect(err).NotTo(HaveOccurred())
	Expect(texts(rights.Refused)).To(BeEmpty(), "the operator's role lacks rights")
	AddReportEntry(usedRights, strings.Join(texts(rights.Used), "\n"), ReportEntryVisibilityNever)
}

var _ = ReportAfterSuite("the operator uses every right that it has", func(r Report) {
	if !r.SuiteSucceeded || len(r.SuiteConfig.FocusStrings)+len(r.SuiteConfig.SkipStrings) > 0 {
		return // some specs alone use some rights
	}
	used := map[string]bool{}
	for _, node := range r.SpecReports {
		for _, entry := range node.ReportEntries {
			for right := range strings.Lines(entry.StringRepresentation()) {
				used[strings.TrimSpace(right)] = used[strings.TrimSpace(right)] || entry.Name == usedRights
			}
		}
	}
	data, err := os.ReadFile("../config/rbac/role.yaml")
	Expect(err).NotTo(HaveOccurred())
	role := &rbacv1.ClusterRole{}
	Expect(yaml.UnmarshalStrict(data, role)).To(Succeed())
	Expect(compareRights(role.Rules, used, unused)).To(BeEmpty(), "drop a right from the markers, or say in `unused` what it is for")
})

func texts(rights map[audit.Right]int) []string {
	var out []string
	for right := range rights {
		out = append(out, right.String())
	}
	slices.Sort(out)
	return out
}

// compareRights finds rights that are granted, neither used nor explained, and explanations of rights that are not granted.
// An informer lists where the API server does not stream, so that a list needs no separate use if there is a watch.
func compareRights(rules []rbacv1.PolicyRule, used map[string]bool, explained map[audit.Right]string) []string {
	var findings []string
	granted := map[audit.Right]bool{}
	for right := range grants(rules) {
		granted[right] = true
		watch := right
		watch.Verb = "watch"
		use := used[right.String()] || right.Verb == "list" && used[watch.String()]
		if explained[right] == "" && !use {
			findings = append(findings, right.String()+" is granted and not used")
		}
	}
	for right := range explained {
		if !granted[right] {
			findings = append(findings, right.String()+" is explained and not granted")
		}
	}
	slices.Sort(findings)
	return slices.Compact(findings)
}

// grants are the rights that rules give, one by one.
func grants(rules []rbacv1.PolicyRule) func(func(audit.Right) bool) {
	return func(yield func(audit.Right) bool) {
		for _, rule := range rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					name, sub, _ := strings.Cut(resource, "/")
					if group != "" {
						name += "." + group
					}
					for _, verb := range rule.Verbs {
						if !yield(audit.Right{Verb: verb, Resource: name, Subresource: sub}) {
							return
						}
					}
				}
			}
		}
	}
}

func TestCompareRights(t *testing.T) {
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"get", "list", "watch", "delete"}},
		{APIGroups: []string{""}, Resources: []string{"pods", "pods/status"}, Verbs: []string{"list", "patch"}},
	}
	deployments := func(verb string) audit.Right { return audit.Right{Verb: verb, Resource: "deployments.apps"} }
	used := map[string]bool{"watch deployments.apps": true, "delete deployments.apps": true, "patch pods": true, "patch pods/status": true}
	explained := map[audit.Right]string{
		deployments("get"): "tried by people", deployments("create"): "gone", {Verb: "list", Resource: "pods"}: "for others",
	}
	want := []string{
		"create deployments.apps is explained and not granted",
		"list pods/status is granted and not used",
	}
	if diff := cmp.Diff(want, compareRights(rules, used, explained)); diff != "" {
		t.Error(diff)
	}
}
