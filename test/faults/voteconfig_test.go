package faults

import (
	"context"
	"errors"
	"fmt"
	"testing"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	votingv1alpha1 "github.com/fettle-dev/fettle/api/voting/v1alpha1"
)

const (
	voteName       = "vote"
	voteConfigMap  = "vote-config"
	voterName      = "app"
	voteAnnotation = "voting.fettle.dev/vote"

	twoOptions   = `options: [{id: a, label: Cats, color: "#FF6B6B"}, {id: b, label: Dogs}]`
	threeOptions = `{options: [{id: a, label: Apes}, {id: c, label: Cows}, {id: d, label: Ducks}], maxVotesPerUser: 2}`
)

var (
	voteConfigs  = votingv1alpha1.GroupVersion.WithResource("voteconfigs")
	deployments  = k8sappsv1.SchemeGroupVersion.WithResource("deployments")
	voteChildren = []schema.GroupVersionResource{configMaps, deployments}
)

// voteConfigScenario creates and changes a VoteConfig that a Deployment uses.
func voteConfigScenario(t *testing.T) Scenario {
	scenario := webScenario(t, "voteconfig-rollout", []Step{
		// Its pods cannot start before the ConfigMap exists, so there is one restart: for the change.
		{Name: "a Deployment that needs the ConfigMap", Converged: runs, Do: func(ctx context.Context, w *Client) error { return w.Create(ctx, voter(w.Namespace)) }},
		voteStep("create", twoOptions),
		{Name: "other options", Converged: restarted, Do: func(ctx context.Context, w *Client) error { return setVote(ctx, w, threeOptions) }},
	})
	scenario.Primary, scenario.Children = voteConfigs, voteChildren
	scenario.Deletion = &Deletion{Step: 1, Object: Key{voteConfigs, voteName}}
	return scenario
}

// voteStep creates the VoteConfig or replaces its spec, and waits until it is Ready.
func voteStep(name, spec string) Step {
	return Step{Name: name, Converged: Ready(voteConfigs, voteName), Do: func(ctx context.Context, w *Client) error { return setVote(ctx, w, spec) }}
}

// setVote is a change by a user, which is retried after a conflict with the operator's write.
func setVote(ctx context.Context, w *Client, spec string) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		vc := &votingv1alpha1.VoteConfig{ObjectMeta: metav1.ObjectMeta{Name: voteName, Namespace: w.Namespace}}
		err := w.Get(ctx, client.ObjectKeyFromObject(vc), vc)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		missing := err != nil
		vc.Spec = votingv1alpha1.VoteConfigSpec{}
		if err := yaml.UnmarshalStrict([]byte(spec), &vc.Spec); err != nil {
			return fmt.Errorf("spec of the scenario: %w", err)
		}
		if missing {
			return w.Create(ctx, vc)
		}
		return w.Update(ctx, vc)
	})
}

// voter is a user's Deployment that takes the options from its environment.
func voter(namespace string) *k8sappsv1.Deployment {
	labels := map[string]string{"app": voterName}
	return &k8sappsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: voterName, Namespace: namespace},
		Spec: k8sappsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "app", Image: "example/vote",
					EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
						LocalObjectReference: corev1.LocalObjectReference{Name: voteConfigMap},
					}}},
				}}},
			},
		},
	}
}

func voterIn(v View) (*unstructured.Unstructured, error) {
	if d := v.Get(deployments, voterName); d != nil {
		return d, nil
	}
	return nil, errors.New("the Deployment does not exist")
}

func runs(v View) error {
	d, err := voterIn(v)
	if err != nil {
		return err
	}
	if observed, _, _ := unstructured.NestedInt64(d.Object, "status", "observedGeneration"); observed != d.GetGeneration() {
		return errors.New("the Deployment was not rolled out yet")
	}
	return nil
}

// restarted requires that the pods have the annotation of a restart, and that the VoteConfig reports them as up to date.
func restarted(v View) error {
	d, err := voterIn(v)
	if err != nil {
		return err
	}
	if hash, _, _ := unstructured.NestedString(d.Object, "spec", "template", "metadata", "annotations", voteAnnotation); hash == "" {
		return errors.New("the pods have not been restarted")
	}
	return Ready(voteConfigs, voteName)(v)
}
