package backupjob

import (
	"cmp"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
)

// serviceAccount is the name of the pod's ServiceAccount: the one with access to the store, or its own.
func (p *Pod) serviceAccount() string { return cmp.Or(p.Store.ServiceAccountName, p.Name()) }

// Access is what lets the pod report, and nothing else: its ServiceAccount, and the right to patch the status of its own object.
func (p *Pod) Access() []runtime.ApplyConfiguration {
	name, namespace := p.Name(), p.Config.Namespace
	out := []runtime.ApplyConfiguration{
		rbacv1ac.Role(name, namespace).WithLabels(p.labels()).WithRules(rbacv1ac.PolicyRule().
			WithAPIGroups(backupv1alpha1.GroupVersion.Group).WithResources(p.Kind.Resource + "/status").
			WithResourceNames(p.Config.Object).WithVerbs("patch")),
		rbacv1ac.RoleBinding(name, namespace).WithLabels(p.labels()).
			WithRoleRef(rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("Role").WithName(name)).
			WithSubjects(rbacv1ac.Subject().WithKind(rbacv1.ServiceAccountKind).WithName(p.serviceAccount()).WithNamespace(namespace)),
	}
	if p.Store.ServiceAccountName == "" {
		out = append(out, corev1ac.ServiceAccount(name, namespace).WithLabels(p.labels()).WithAutomountServiceAccountToken(false))
	}
	return out
}
