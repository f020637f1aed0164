package faults

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Forbidden events in the history of a PostgreSQL, whatever its final state. Events of different kinds of objects have no order.

func checkHistories(histories []func([]event) error, events []event) (all error) {
	for _, history := range histories {
		all = errors.Join(all, history(events))
	}
	return all
}

// dataKept finds volumes and passwords that were deleted without both a deletion request and the policy.
func dataKept(events []event) error {
	drop, deleted := false, false
	for _, e := range events {
		if e.Key.Resource != postgreSQLs {
			continue
		}
		policy, _, _ := unstructured.NestedString(e.Object.Object, "spec", "deletionPolicy")
		drop, deleted = policy == "Delete", deleted || e.Type == watch.Deleted
	}
	for _, e := range events {
		data := e.Key.Resource == pgClaims || e.Key.Resource == pgSecrets && strings.HasSuffix(e.Key.Name, "-credentials")
		if data && e.Type == watch.Deleted && (!drop || !deleted) {
			return fmt.Errorf("%s was deleted", e.Key)
		}
	}
	return nil
}

// oneAtATime finds more than one instance that is not ready at the same time, after all were ready.
func oneAtATime(events []event) error {
	there, serves, all := map[string]bool{}, map[string]bool{}, false
	for _, e := range events {
		if e.Key.Resource != pgPods {
			continue
		}
		there[e.Key.Name] = true
		serves[e.Key.Name] = e.Type != watch.Deleted && podReady(e.Object)
		down := 0
		for name := range there {
			if !serves[name] {
				down++
			}
		}
		// The first instance may be ready before the others are created.
		if all = all || down == 0 && len(there) > 1; all && down > 1 {
			return fmt.Errorf("%d of %v were not ready at the same time", down, slices.Sorted(maps.Keys(there)))
		}
	}
	return nil
}

func podReady(object *unstructured.Unstructured) bool {
	pod := &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, pod); err != nil || pod.DeletionTimestamp != nil {
		return false
	}
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// noPodDeleted finds pods that were deleted although no request requires it.
func noPodDeleted(events []event) error {
	for _, e := range events {
		if e.Key.Resource == pgPods && e.Type == watch.Deleted {
			return fmt.Errorf("%s was deleted", e.Key)
		}
	}
	return nil
}

func TestHistories(t *testing.T) {
	policy := func(value string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"deletionPolicy": value}}}
	}
	pod := func(name string, kind watch.EventType, ready string) event {
		return event{Key: Key{pgPods, name}, Type: kind, Object: &unstructured.Unstructured{Object: map[string]any{
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": ready}}},
		}}}
	}
	pg := Key{postgreSQLs, pgName}
	claim := event{Key: Key{pgClaims, "data-shop-0"}, Type: watch.Deleted}
	both := []event{pod("a", watch.Added, "True"), pod("b", watch.Added, "True")}
	for name, c := range map[string]struct {
		history func([]event) error
		events  []event
		wrong   bool
	}{
		"a PVC is deleted with its PostgreSQL":       {dataKept, []event{{pg, watch.Deleted, policy("Delete"), nil}, claim}, false},
		"a PVC is deleted that must stay":            {dataKept, []event{{pg, watch.Deleted, policy("Retain"), nil}, claim}, true},
		"a PVC is deleted before the PostgreSQL":     {dataKept, []event{{pg, watch.Modified, policy("Delete"), nil}, claim}, true},
		"a password is deleted that must stay":       {dataKept, []event{{Key: Key{pgSecrets, "shop-credentials"}, Type: watch.Deleted}}, true},
		"certificates may be deleted":                {dataKept, []event{{Key: Key{pgSecrets, "shop-server"}, Type: watch.Deleted}}, false},
		"both start":                                 {oneAtATime, []event{pod("a", watch.Added, "False"), pod("b", watch.Added, "False")}, false},
		"one after the other":                        {oneAtATime, append(slices.Clone(both), pod("a", watch.Modified, "False"), pod("a", watch.Modified, "True"), pod("b", watch.Deleted, "True")), false},
		"the second before the first is ready again": {oneAtATime, append(slices.Clone(both), pod("a", watch.Deleted, "True"), pod("a", watch.Added, "False"), pod("b", watch.Modified, "False")), true},
		"no pod": {noPodDeleted, both, false},
		"a pod":  {noPodDeleted, append(slices.Clone(both), pod("a", watch.Deleted, "True")), true},
	} {
		if err := c.history(c.events); (err != nil) != c.wrong {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRegenerated(t *testing.T) {
	secret := func(data map[string]any) *unstructured.Unstructured {
		s := &unstructured.Unstructured{Object: map[string]any{"kind": "Secret", "data": data}}
		s.SetCreationTimestamp(metav1.Time{})
		return s
	}
	for name, c := range map[string]struct {
		before, after map[string]any
		wrong         bool
	}{
		"nothing":                       {map[string]any{"password": "a"}, map[string]any{"password": "a"}, false},
		"a rotation begins":             {map[string]any{"password": "a"}, map[string]any{"password": "a", "password-next": "b"}, false},
		"it is done":                    {map[string]any{"password": "a", "password-next": "b"}, map[string]any{"password": "b"}, false},
		"another password is published": {map[string]any{"password": "a", "password-next": "b"}, map[string]any{"password": "c"}, true},
		"without a rotation":            {map[string]any{"password": "a"}, map[string]any{"password": "b"}, true},
		"it starts again":               {map[string]any{"password": "a", "password-next": "b"}, map[string]any{"password": "a", "password-next": "c"}, true},
	} {
		if err := regenerated(secret(c.before), secret(c.after)); (err != nil) != c.wrong {
			t.Errorf("%s: %v", name, err)
		}
	}
}
