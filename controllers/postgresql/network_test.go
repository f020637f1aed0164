package postgresql

import (
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apilabels "k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/apply"
)

// endpoint is a pod, by what NetworkPolicies know it; one without a namespace is outside of the cluster.
type endpoint struct {
	namespace string
	labels    map[string]string
}

// selects reports whether a peer of a policy of a namespace is the pod.
func selects(t *testing.T, home string, p networkingv1.NetworkPolicyPeer, e endpoint) bool {
	t.Helper()
	match := func(s *metav1.LabelSelector, of map[string]string) bool {
		selector, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			t.Fatal(err)
		}
		return selector.Matches(apilabels.Set(of))
	}
	switch {
	case p.IPBlock != nil || e.namespace == "":
		return false
	case p.NamespaceSelector == nil && e.namespace != home:
		return false
	case p.NamespaceSelector != nil && !match(p.NamespaceSelector, map[string]string{corev1.LabelMetadataName: e.namespace}):
		return false
	}
	return p.PodSelector == nil || match(p.PodSelector, e.labels)
}

// reaches reports whether a rule with these ports and peers admits a port and a pod. No peers are all, and so are no ports.
func reaches(t *testing.T, home string, ports []networkingv1.NetworkPolicyPort, peers []networkingv1.NetworkPolicyPeer, port int, e endpoint) bool {
	t.Helper()
	return (len(ports) == 0 || slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool {
		return p.Port.IntValue() == port && *p.Protocol == corev1.ProtocolTCP
	})) && (len(peers) == 0 || slices.ContainsFunc(peers, func(p networkingv1.NetworkPolicyPeer) bool { return selects(t, home, p, e) }))
}

// TestNetworkPolicy_whoReachesWhat is the proof of the rules: the local cluster's network enforces none.
func TestNetworkPolicy_whoReachesWhat(t *testing.T) {
	podsOf := func(name string) map[string]string {
		return map[string]string{labelOwnerKind: ownerKind, labelOwnerName: name}
	}
	from := map[string]endpoint{
		"instance": {"shop", podsOf("pg")}, "other database": {"shop", podsOf("other")}, "namesake": {"else", podsOf("pg")},
		"app": {"shop", map[string]string{"app": "web"}}, "stranger": {"else", map[string]string{"app": "web"}},
		"prometheus": {"monitoring", map[string]string{"app": "prometheus"}},
		"operator":   {"fettle-system", map[string]string{"app.kubernetes.io/name": "fettle"}}, "outside": {},
		"backup":            {"shop", map[string]string{backupv1alpha1.LabelPostgreSQL: "pg"}},
		"backup of another": {"shop", map[string]string{backupv1alpha1.LabelPostgreSQL: "other"}},
	}
	everybody := []string{"app", "backup", "backup of another", "instance", "namesake", "operator", "other database", "outside", "prometheus", "stranger"}
	agents := []string{"instance", "operator"}
	named := func(namespace, app string) []networkingv1.NetworkPolicyPeer {
		p := networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}
		if namespace != "" {
			p.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
		}
		return []networkingv1.NetworkPolicyPeer{p}
	}
	for name, c := range map[string]struct {
		spec databasev1alpha1.PostgreSQLNetworkPolicy
		want map[int][]string
	}{
		"by default": {want: map[int][]string{portPostgres: everybody, 8443: agents, portMetrics: everybody, portProbes: nil, 22: nil}},
		"with clients": {
			databasev1alpha1.PostgreSQLNetworkPolicy{From: named("", "web")},
			map[int][]string{portPostgres: {"app", "backup", "instance"}, 8443: agents, portMetrics: everybody, portProbes: nil},
		},
		"with Prometheus": {
			databasev1alpha1.PostgreSQLNetworkPolicy{MetricsFrom: named("monitoring", "prometheus")},
			map[int][]string{portPostgres: everybody, 8443: agents, portMetrics: {"prometheus"}, portProbes: nil},
		},
	} {
		pg := wanting(3)
		pg.Spec.NetworkPolicy = c.spec
		policy := apply.Convert[networkingv1.NetworkPolicy](networkPolicy(pg, "fettle-system"))
		if s := policy.Spec; !slices.Equal(s.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}) ||
			!selects(t, "shop", networkingv1.NetworkPolicyPeer{PodSelector: &s.PodSelector}, from["instance"]) {
			t.Errorf("%s: the policy is about %v, %v", name, s.PodSelector, s.PolicyTypes)
		}
		for port, want := range c.want {
			var got []string
			for who, e := range from {
				if slices.ContainsFunc(policy.Spec.Ingress, func(r networkingv1.NetworkPolicyIngressRule) bool {
					return reaches(t, "shop", r.Ports, r.From, port, e)
				}) {
					got = append(got, who)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s: port %d is reached by %q, want %q", name, port, got, want)
			}
		}
	}
}

// TestNetworkPolicy_ofTheOperator holds that the operator reaches the agents of all namespaces where config/network-policy is
// applied, and that not every pod is reached with that.
func TestNetworkPolicy_ofTheOperator(t *testing.T) {
	raw, err := os.ReadFile("../../config/network-policy/network_policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	policy := &networkingv1.NetworkPolicy{}
	if err := yaml.UnmarshalStrict(raw, policy); err != nil {
		t.Fatal(err)
	}
	agent := endpoint{"shop", selector(wanting(1))}
	for _, c := range []struct {
		port int
		to   endpoint
		want bool
	}{
		{8443, agent, true}, {5432, agent, false}, {443, endpoint{}, true}, {6443, endpoint{}, true},
		{8443, endpoint{"shop", map[string]string{"app": "web"}}, false}, {8443, endpoint{}, false},
	} {
		if got := slices.ContainsFunc(policy.Spec.Egress, func(r networkingv1.NetworkPolicyEgressRule) bool {
			return reaches(t, policy.Namespace, r.Ports, r.To, c.port, c.to)
		}); got != c.want {
			t.Errorf("port %d of %v: reached %t, want %t", c.port, c.to, got, c.want)
		}
	}
}
