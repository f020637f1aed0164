package main

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// templates counts the changes of the Deployments of a namespace. Their generation rises when a contender changes the pod template; no
// client changes another field of the spec.
type templates struct {
	stop context.CancelFunc

	mu         sync.Mutex
	generation map[int]int64
	changed    map[int][]time.Time // one for each change that was seen
}

func (b *bench) watchTemplates(ctx context.Context, namespace string) (*templates, error) {
	ctx, stop := context.WithCancel(ctx)
	t := &templates{stop: stop, generation: map[int]int64{}, changed: map[int][]time.Time{}}
	list := &k8sappsv1.DeploymentList{}
	if err := b.admin.List(ctx, list, client.InNamespace(namespace)); err != nil {
		stop()
		return nil, err
	}
	go t.follow(ctx, b, namespace, list.ResourceVersion)
	return t, nil
}

// follow watches until ctx ends, and resumes an ended watch.
func (t *templates) follow(ctx context.Context, b *bench, namespace, version string) {
	for ctx.Err() == nil {
		events, err := b.admin.Watch(ctx, &k8sappsv1.DeploymentList{}, client.InNamespace(namespace),
			&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}})
		if err != nil {
			if ctx.Err() == nil {
				b.logf("watch Deployments: %v", err)
			}
			_ = sleep(ctx, time.Second)
			continue
		}
		for event := range events.ResultChan() {
			if deployment, ok := event.Object.(*k8sappsv1.Deployment); ok {
				t.see(deployment)
				version = deployment.ResourceVersion
			}
		}
		events.Stop()
	}
}

func (t *templates) see(deployment *k8sappsv1.Deployment) {
	var i int
	if _, err := fmt.Sscanf(deployment.Name, deploymentName, &i); err != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	before, known := t.generation[i]
	t.generation[i] = deployment.Generation
	if known && deployment.Generation > before {
		t.changed[i] = append(t.changed[i], time.Now())
	}
}

// counts returns how often each template has changed.
func (t *templates) counts() map[int]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := map[int]int{}
	for i, times := range t.changed {
		all[i] = len(times)
	}
	return all
}

// since compares the times of accepted changes with those of the first template changes after them.
func (t *templates) since(before map[int]int, accepted map[int]time.Time) changes {
	t.mu.Lock()
	changed := maps.Clone(t.changed)
	t.mu.Unlock()
	result := changes{changes: len(accepted)}
	var seconds []float64
	for i, at := range accepted {
		if len(changed[i]) <= before[i] {
			result.unanswered++
			continue
		}
		seen := changed[i][before[i]]
		seconds = append(seconds, max(0, seen.Sub(at).Seconds())) // the event may arrive before the response of the request
	}
	result.summarize(seconds)
	return result
}
