package postgresql

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// wantsNetworkPolicy reports whether a NetworkPolicy is wanted.
func wantsNetworkPolicy(pg *databasev1alpha1.PostgreSQL) bool {
	return pg.Spec.NetworkPolicy.Enabled == nil || *pg.Spec.NetworkPolicy.Enabled
}

// networkPolicy admits clients to PostgreSQL, Prometheus to the metrics, and the instances and the operator to the agents. Probes
// need no rule: a node always reaches its own pods. Instances reach each other whatever spec.networkPolicy says: they replicate
// through the port of the clients. So do the pods of backups and restores.
func networkPolicy(pg *databasev1alpha1.PostgreSQL, operatorNamespace string) *networkingv1ac.NetworkPolicyApplyConfiguration {
	instances := networkingv1ac.NetworkPolicyPeer().WithPodSelector(metav1ac.LabelSelector().WithMatchLabels(selector(pg)))
	operator := networkingv1ac.NetworkPolicyPeer().
		WithNamespaceSelector(metav1ac.LabelSelector().WithMatchLabels(map[string]string{corev1.LabelMetadataName: operatorNamespace}))
	backups := networkingv1ac.NetworkPolicyPeer().
		WithPodSelector(metav1ac.LabelSelector().WithMatchLabels(map[string]string{backupv1alpha1.LabelPostgreSQL: pg.Name}))
	clients := admit(portPostgres, pg.Spec.NetworkPolicy.From)
	if len(clients.From) > 0 {
		clients.WithFrom(instances, backups)
	}
	agents := admit(agentapi.Port, nil).WithFrom(instances, operator)
	metrics := admit(portMetrics, pg.Spec.NetworkPolicy.MetricsFrom)
	return networkingv1ac.NetworkPolicy(pg.Name, pg.Namespace).
		WithLabels(labels(pg)).
		WithSpec(networkingv1ac.NetworkPolicySpec().
			WithPodSelector(metav1ac.LabelSelector().WithMatchLabels(selector(pg))).
			WithPolicyTypes(networkingv1.PolicyTypeIngress).
			WithIngress(clients, agents, metrics))
}

// admit lets peers reach a port; everybody where none is named.
func admit(port int32, from []networkingv1.NetworkPolicyPeer) *networkingv1ac.NetworkPolicyIngressRuleApplyConfiguration {
	rule := networkingv1ac.NetworkPolicyIngressRule().
		WithPorts(networkingv1ac.NetworkPolicyPort().WithProtocol("TCP").WithPort(intstr.FromInt32(port)))
	for _, p := range from {
		rule.WithFrom(apply.Convert[networkingv1ac.NetworkPolicyPeerApplyConfiguration](p))
	}
	return rule
}
