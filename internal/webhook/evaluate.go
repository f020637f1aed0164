package webhook

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/policy"
)

// evaluator applies the policies of a namespace.
type evaluator struct {
	cached client.Reader
	live   client.Reader
}

// check returns the violations of one policy.
type check func(p *appsv1.WebAppPolicy, namespaceLabels map[string]string) ([]policy.Violation, error)

// evaluate runs check with every policy of the namespace. The violations of enforced policies become one error of the object,
// together with the given errors. The others become warnings.
func (j *evaluator) evaluate(ctx context.Context, kind schema.GroupKind, key client.ObjectKey, rejected field.ErrorList, check check) (admission.Warnings, error) {
	policies := &appsv1.WebAppPolicyList{}
	if err := j.cached.List(ctx, policies); err != nil {
		return nil, fmt.Errorf("list WebAppPolicies: %w", err)
	}
	var namespace labels.Set
	if len(policies.Items) > 0 {
		var err error
		if namespace, err = j.namespaceLabels(ctx, key.Namespace); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(policies.Items, func(a, b appsv1.WebAppPolicy) int { return cmp.Compare(a.Name, b.Name) })
	var warnings admission.Warnings
	for i := range policies.Items {
		p := &policies.Items[i]
		// The policy's status reports an invalid selector.
		if selector, _ := policy.Selector(p); !selector.Matches(namespace) {
			continue
		}
		violations, err := check(p, namespace)
		if err != nil {
			return nil, fmt.Errorf("check WebAppPolicy %q: %w", p.Name, err)
		}
		for _, v := range violations {
			if p.Spec.Action == appsv1.ActionEnforce {
				rejected = append(rejected, v.Error)
			} else {
				warnings = append(warnings, v.Error.Error())
			}
		}
	}
	if len(rejected) > 0 {
		return warnings, apierrors.NewInvalid(kind, key.Name, rejected)
	}
	return warnings, nil
}

// namespaceLabels reads a namespace from the API server if the cache does not have it yet. Otherwise a new namespace would be exempt
// from its policies.
func (j *evaluator) namespaceLabels(ctx context.Context, name string) (map[string]string, error) {
	namespace := namespaceMetadata(name)
	err := j.cached.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)
	if apierrors.IsNotFound(err) {
		err = j.live.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("get the labels of namespace %q: %w", name, err)
	}
	return namespace.Labels, nil
}
