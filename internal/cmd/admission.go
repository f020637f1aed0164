package cmd

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/fettle-dev/fettle/config/admission"
)

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,verbs=create
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,resourceNames=fettle-agents,verbs=get;patch

// policyOwner is the CRD that owns the policies: they are deleted with it, and otherwise outlive the operator.
const policyOwner = "postgresqls.database.fettle.dev"

// contentAnnotation has the digest of the applied object.
const contentAnnotation = "fettle.dev/content"

// addPolicies makes the leader apply the admission policies once, when it starts: OLM's bundles cannot contain them.
func addPolicies(mgr manager.Manager) error {
	err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		_ = wait.PollUntilContextCancel(ctx, time.Minute, true, func(ctx context.Context) (bool, error) { // shutdown is not an error
			err := applyPolicies(ctx, mgr.GetClient(), mgr.GetAPIReader())
			if err != nil {
				mgr.GetLogger().Error(err, "agents are not confined: apply config/admission/agents.yaml, or grant the operator permission to do so")
			}
			return err == nil, nil
		})
		return nil
	}))
	if err != nil {
		return fmt.Errorf("set up admission policies: %w", err)
	}
	return nil
}

// applyPolicies applies the policies that differ from the live ones. definitions reads CustomResourceDefinitions from the cache.
func applyPolicies(ctx context.Context, definitions client.Client, live client.Reader) error {
	objects, err := admission.Objects()
	if err != nil {
		return err
	}
	owner := &metav1.PartialObjectMetadata{}
	owner.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	if err := definitions.Get(ctx, client.ObjectKey{Name: policyOwner}, owner); err != nil {
		return fmt.Errorf("owner of admission policies: %w", err)
	}
	for _, u := range objects {
		u.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: owner.UID,
		}})
		if err := setContentHash(u); err != nil {
			return err
		}
		same, err := isCurrent(ctx, live, u)
		if err == nil && !same {
			err = definitions.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("fettle"), client.ForceOwnership)
		}
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return nil
}

// setContentHash adds the digest of the object's contents. Without it, isCurrent would miss fields that a later release removes.
func setContentHash(u *unstructured.Unstructured) error {
	content, err := json.Marshal(u.Object)
	if err != nil {
		return fmt.Errorf("digest of %s %s: %w", u.GetKind(), u.GetName(), err)
	}
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[contentAnnotation] = fmt.Sprintf("%x", sha256.Sum256(content))
	u.SetAnnotations(annotations)
	return nil
}

// isCurrent reports whether the live object contains all of u.
func isCurrent(ctx context.Context, live client.Reader, u *unstructured.Unstructured) (bool, error) {
	there := &unstructured.Unstructured{}
	there.SetGroupVersionKind(u.GroupVersionKind())
	err := live.Get(ctx, client.ObjectKeyFromObject(u), there)
	return err == nil && equality.Semantic.DeepDerivative(u.Object, there.Object), client.IgnoreNotFound(err)
}
