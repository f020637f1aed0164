package failover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The installation of the operator by OLM, as in config/subscription.
const (
	operatorNamespace  = "fettle-system"
	operatorDeployment = "fettle-controller-manager"
	subscription       = "fettle"
	operatorTime       = 3 * time.Minute
)

// removeOperator scales the operator to zero until the end. It changes OLM's installation, because OLM would revert a change of the
// Deployment.
func (s *suite) removeOperator(ctx context.Context) error {
	csv, err := s.installed(ctx)
	if err != nil {
		return err
	}
	before := int32(1)
	if r := csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Replicas; r != nil {
		before = *r
	}
	s.onCleanup("scale the operator up", func(ctx context.Context) error { return s.scaleOperator(ctx, before) })
	return s.scaleOperator(ctx, 0)
}

func (s *suite) installed(ctx context.Context) (*operatorsv1alpha1.ClusterServiceVersion, error) {
	sub := &operatorsv1alpha1.Subscription{}
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: subscription}, sub); err != nil {
		return nil, fmt.Errorf("fettle is not installed by OLM (make olm-install): %w", err)
	}
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: sub.Status.InstalledCSV}, csv); err != nil {
		return nil, err
	}
	if len(csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs) != 1 {
		return nil, fmt.Errorf("%s does not install one Deployment", csv.Name)
	}
	return csv, nil
}

// scaleOperator waits until that number of replicas is there and ready.
func (s *suite) scaleOperator(ctx context.Context, replicas int32) error {
	csv, err := s.installed(ctx)
	if err != nil {
		return err
	}
	patch, err := json.Marshal([]map[string]any{{
		"op": "replace", "path": "/spec/install/spec/deployments/0/spec/replicas", "value": replicas,
	}})
	if err != nil {
		return err
	}
	if err := s.client.Patch(ctx, csv, client.RawPatch(types.JSONPatchType, patch)); err != nil {
		return err
	}
	s.logf("scaling the operator to %d replicas", replicas)
	return waitFor(ctx, operatorTime, fmt.Sprintf("%d replicas of the operator", replicas), func(ctx context.Context) error {
		d, pods := &k8sappsv1.Deployment{}, &corev1.PodList{}
		if err := s.client.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: operatorDeployment}, d); err != nil {
			return err
		}
		if err := s.client.List(ctx, pods, client.InNamespace(operatorNamespace), client.MatchingLabels(d.Spec.Selector.MatchLabels)); err != nil {
			return err
		}
		switch {
		case d.Spec.Replicas == nil || *d.Spec.Replicas != replicas || d.Status.ObservedGeneration != d.Generation:
			return errors.New("OLM has not applied it yet")
		case len(pods.Items) != int(replicas) || d.Status.ReadyReplicas != replicas:
			return fmt.Errorf("there are %d pods, %d ready", len(pods.Items), d.Status.ReadyReplicas)
		}
		return nil
	})
}
