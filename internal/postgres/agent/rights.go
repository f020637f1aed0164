package agent

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/peer"
)

// Rights are what the agents of a cluster may do in its namespace, by name where that is possible. What of a pod they may change is bounded
// further by config/admission/agents.yaml.
func Rights(cluster string, instances int) []rbacv1.PolicyRule {
	pods := make([]string, instances)
	for i := range pods {
		pods[i] = peer.Pod(cluster, i)
	}
	own := []string{cluster}
	return []rbacv1.PolicyRule{
		{ // the holder makes it again if somebody deletes it
			APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, ResourceNames: own,
			Verbs: []string{"get", "watch", "update", "create"},
		},
		{APIGroups: []string{corev1.GroupName}, Resources: []string{"pods"}, ResourceNames: pods, Verbs: []string{"get", "patch"}},
		{
			APIGroups: []string{databasev1alpha1.GroupVersion.Group}, Resources: []string{"postgresqls"}, ResourceNames: own,
			Verbs: []string{"get", "watch"},
		},
		// What is made anew has no name by which it could be allowed.
		{APIGroups: []string{corev1.GroupName}, Resources: []string{"events"}, Verbs: []string{"create"}},
	}
}
