package cmd

import (
	"context"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/fettle-dev/fettle/config/admission"
)

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,verbs=create
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,resourceNames=fettle-agents,verbs=patch

// policyOwner is the definition whose objects the policies are about: they go when it goes, and outlive the operator with it.
const policyOwner = "postgresqls.database.fettle.dev"

// addPolicies has the leader apply the admission policies once, when it starts: OLM's bundles can't hold them.
func addPolicies(mgr manager.Manager) error {
	err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		_ = wait.PollUntilContextCancel(ctx, time.Minute, true, func(ctx context.Context) (bool, error) { // the end is no error
			err := applyPolicies(ctx, mgr.GetAPIReader(), mgr.GetClient())
			if err != nil {
				mgr.GetLogger().Error(err, "agents are not confined: apply config/admission/agents.yaml, or let the operator do so")
			}
			return err == nil, nil
		})
		return nil
	}))
	if err != nil {
		return fmt.Errorf("set up the admission policies: %w", err)
	}
	return nil
}

func applyPolicies(ctx context.Context, reader client.Reader, writer client.Writer) error {
	objects, err := admission.Objects()
	if err != nil {
		return err
	}
	owner := &metav1.PartialObjectMetadata{}
	owner.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	if err := reader.Get(ctx, client.ObjectKey{Name: policyOwner}, owner); err != nil {
		return fmt.Errorf("owner of the admission policies: %w", err)
	}
	for _, u := range objects {
		u.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: owner.UID,
		}})
		if err := writer.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("fettle"), client.ForceOwnership); err != nil {
			return fmt.Errorf("apply %s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return nil
}
