package apply

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// statusOwner is an owner with conditions.
type statusOwner struct {
	corev1.ConfigMap

	conditions []metav1.Condition
}

func (o *statusOwner) Conditions() *[]metav1.Condition { return &o.conditions }

// TestOwnerOf_reconciled: the default status of a new object has a condition too, but of no generation.
func TestOwnerOf_reconciled(t *testing.T) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(testOwner().gvk, &statusOwner{})
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		want       bool
	}{
		"no status":       {nil, false},
		"default status":  {[]metav1.Condition{{Type: "Ready"}}, false},
		"reported status": {[]metav1.Condition{{Type: "Ready"}, {Type: "Published", ObservedGeneration: 1}}, true},
	} {
		owner := &statusOwner{conditions: test.conditions}
		owner.Namespace, owner.Name, owner.UID = testNamespace, "web", "1"
		o, err := ownerOf(owner, scheme)
		if err != nil || o.reconciled != test.want {
			t.Errorf("%s: reconciled is %t, want %t: %v", name, o.reconciled, test.want, err)
		}
	}
}
