package voteconfig

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	votingv1alpha1 "github.com/fettle-dev/fettle/api/voting/v1alpha1"
	"github.com/fettle-dev/fettle/internal/cache"
	"github.com/fettle-dev/fettle/internal/rollout"
)

const (
	// debounce coalesces changes into one restart.
	debounce = 2 * time.Second
	// minInterval is the shortest time between two restarts of the same workload.
	minInterval = 10 * time.Second
)

// owner identifies vc for the engine.
func owner(vc *votingv1alpha1.VoteConfig) rollout.Owner {
	return rollout.Owner{Prefix: rollout.VotingPrefix, Namespace: vc.Namespace, Name: vc.Name}
}

// policy says which workloads the engine restarts for vc, one at a time.
func policy(vc *votingv1alpha1.VoteConfig) rollout.Policy {
	p := rollout.Policy{Debounce: debounce, MinInterval: minInterval, MaxConcurrent: 1}
	p.Disabled = vc.Spec.Target.Mode == votingv1alpha1.RestartNone
	p.IgnoreMounts = vc.Spec.Target.Mode == votingv1alpha1.RestartMount
	for _, name := range vc.Spec.Target.Deployments {
		p.Targets = append(p.Targets, rollout.Target{Kind: rollout.Deployment, Name: name})
	}
	return p
}

// object is the ConfigMap for the engine. live is nil if there is none.
func object(vc *votingv1alpha1.VoteConfig, live *corev1.ConfigMap) rollout.Object {
	name := configMapName(vc)
	o := rollout.Object{Kind: rollout.ConfigMap, Target: name, Name: name}
	if live == nil {
		return o
	}
	o.Exists, o.PublishedAt = true, live.Annotations[rollout.PublishedAnnotation]
	o.ForeignEdit = cache.ForeignEditTime(live.ManagedFields, controllerName)
	o.Data = make(map[string][]byte, len(live.Data)+len(live.BinaryData))
	for key, value := range live.Data {
		o.Data[key] = []byte(value)
	}
	maps.Copy(o.Data, live.BinaryData)
	return o
}
