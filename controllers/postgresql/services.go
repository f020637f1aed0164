package postgresql

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agent"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// service reaches the pods that have a role. Which one is said by the agents, whose safety does not depend on it. The primary
// is reached as soon as its agent says so: its next readiness probe would come seconds later.
func service(pg *databasev1alpha1.PostgreSQL, name, role string) *corev1ac.ServiceApplyConfiguration {
	spec := corev1ac.ServiceSpec().
		WithType("ClusterIP").
		WithSelector(selectorOf(pg, role)).
		WithPorts(servicePort("postgres", portPostgres))
	if role == databasev1alpha1.LabelRolePrimary {
		spec.WithPublishNotReadyAddresses(true)
	}
	return corev1ac.Service(name, pg.Namespace).WithLabels(labels(pg)).WithSpec(spec)
}

// headless gives each pod a name, ready or not: its agent has to be reached before it is ready.
func headless(pg *databasev1alpha1.PostgreSQL) *corev1ac.ServiceApplyConfiguration {
	return corev1ac.Service(podsService(pg), pg.Namespace).
		WithLabels(labels(pg)).
		WithSpec(corev1ac.ServiceSpec().
			WithType("ClusterIP").
			WithClusterIP("None").
			WithPublishNotReadyAddresses(true).
			WithSelector(selector(pg)).
			WithPorts(servicePort("postgres", portPostgres), servicePort("agent", agentapi.Port)))
}

func servicePort(name string, number int32) *corev1ac.ServicePortApplyConfiguration {
	return corev1ac.ServicePort().WithName(name).WithProtocol("TCP").WithPort(number).WithTargetPort(intstr.FromString(name))
}

// serviceAccount of the agents. The annotations of identity grant access to a bucket to pods that start later.
func serviceAccount(pg *databasev1alpha1.PostgreSQL, identity map[string]string) *corev1ac.ServiceAccountApplyConfiguration {
	return corev1ac.ServiceAccount(pg.Name, pg.Namespace).WithLabels(labels(pg)).WithAnnotations(identity).WithAutomountServiceAccountToken(false)
}

// role is what the agents may do.
func role(pg *databasev1alpha1.PostgreSQL, in *inputs) *rbacv1ac.RoleApplyConfiguration {
	r := rbacv1ac.Role(pg.Name, pg.Namespace).WithLabels(labels(pg))
	for _, rule := range slices.Concat(agent.PolicyRules(pg.Name, maxInstances, storeSecrets(pg)...), recoveryRules(in)) {
		r.WithRules(rbacv1ac.PolicyRule().WithAPIGroups(rule.APIGroups...).WithResources(rule.Resources...).
			WithResourceNames(rule.ResourceNames...).WithVerbs(rule.Verbs...))
	}
	return r
}

func roleBinding(pg *databasev1alpha1.PostgreSQL) *rbacv1ac.RoleBindingApplyConfiguration {
	return rbacv1ac.RoleBinding(pg.Name, pg.Namespace).
		WithLabels(labels(pg)).
		WithRoleRef(rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("Role").WithName(pg.Name)).
		WithSubjects(rbacv1ac.Subject().WithKind(rbacv1.ServiceAccountKind).WithName(pg.Name).WithNamespace(pg.Namespace))
}

// wantsPDB tells whether evictions are bounded. One instance has no budget: it would block the drain of its node for
// ever. With more, one at a time may go; the agents hand over when the primary is asked to stop.
func wantsPDB(pg *databasev1alpha1.PostgreSQL) bool { return replicas(pg) > 1 && !pg.Spec.Hibernated }

// disruptionBudget lets so many instances be away at a time; see uncounted.
func disruptionBudget(pg *databasev1alpha1.PostgreSQL, away int) *policyv1ac.PodDisruptionBudgetApplyConfiguration {
	return policyv1ac.PodDisruptionBudget(pg.Name, pg.Namespace).
		WithLabels(labels(pg)).
		WithSpec(policyv1ac.PodDisruptionBudgetSpec().
			WithMaxUnavailable(intstr.FromInt32(int32(away))).
			// An instance that is not ready protects nothing: it may always be evicted.
			WithUnhealthyPodEvictionPolicy("AlwaysAllow").
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(selector(pg))))
}
