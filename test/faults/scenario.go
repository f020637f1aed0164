// Package faults tests a controller against a real API server under faults. Requests fail, responses get lost, the controller crashes, and
// other clients change its objects. Each run (a plan) has one fault, at one write of a fault-free run. The final state must equal the
// fault-free one, with as many creations and deletions.
//
// Two kinds of faults end otherwise: the user deletes the controller's object (F13) or its namespace (F14) right after one of the writes
// that create the children. Nothing may be left, except what the scenario lists as kept. The garbage collector, the namespace controller
// and the protection of volumes are those of a real kube-controller-manager. It runs only after all other plans: it would disturb them.
//
// A Scenario defines the controller and the user's steps; Run does the rest. No code here depends on a kind.
package faults

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/fettle-dev/fettle/internal/testenv"
)

// Scenario is a sequence of steps that a controller must complete under every fault.
type Scenario struct {
	Name   string
	Scheme *runtime.Scheme
	// Setup registers the controllers, as the operator's main function does when it watches one namespace, the plan's.
	Setup func(mgr manager.Manager, namespace string) error
	// Cache is the operator's own cache configuration. The harness limits it to the plan's namespace.
	Cache cache.Options
	// NewCache makes the operator's cache; nil means controller-runtime's default.
	NewCache cache.NewCacheFunc
	// Primary is the controller's kind, Children are the kinds that it may write.
	Primary  schema.GroupVersionResource
	Children []schema.GroupVersionResource
	// Identity is the controller's identity, the operator by default.
	Identity *rest.Config
	Steps    []Step
	// Background starts other processes in a plan's namespace until ctx ends; the returned function waits for their end.
	Background func(ctx context.Context, namespace string) (wait func(), err error)
	// Deletion is what F13 and F14 delete, nil for a scenario whose creation another one has too.
	Deletion *Deletion
	Rules
}

// Rules are special to the kinds of a scenario. Each is optional.
type Rules struct {
	// ConvergeTimeout is Options.ConvergeTimeout for this scenario.
	ConvergeTimeout time.Duration
	// Rotation is over how many days the plans are spread, unless all are requested; 0 and 1 run all of them each day.
	Rotation int
	// SkipByDefault is true for plans that run only if all are requested.
	SkipByDefault func(Plan) bool
	// Impossible is true for plans that make no sense, with the reason in a comment.
	Impossible func(Plan) bool
	// Normalize removes from a copy of an object the values that differ from run to run, such as random ones.
	Normalize func(Kind, *unstructured.Unstructured)
	// Unowned is true for objects without a controller by design.
	Unowned func(Key) bool
	// DeletedWith are the objects that are deleted and re-created together with an object.
	DeletedWith func(View, Key) []Key
	// InvalidChange returns an error for a forbidden change of an object from one version to the next.
	InvalidChange func(before, after *unstructured.Unstructured) error
	// History returns an error for a forbidden sequence of events, unless another client deleted or changed a child.
	History func([]event) error
}

// resources are the kinds of the scenario's objects.
func (s *Scenario) resources() []schema.GroupVersionResource {
	return append(slices.Clip(s.Children), s.Primary)
}

// Step is a user's action, and its required result.
type Step struct {
	Name string
	Do   func(context.Context, *Client) error
	// AfterRestart makes the user wait after a crash until the controller runs: it would otherwise never see the action.
	AfterRestart bool
	// Converged is nil once the step has had its effect; otherwise the error names the missing part. It sees no state older than Do.
	Converged func(View) error
}

// Client acts as the user of a plan.
type Client struct {
	client.Client
	Namespace string
	DataPlane *testenv.DataPlane // reports Deployments as rolled out
}

// View is the state of a plan's namespace, limited to the scenario's kinds.
type View struct {
	objects map[Key]*unstructured.Unstructured
	tidy    func(Kind, *unstructured.Unstructured)
}

// Key identifies an object within a plan's namespace.
type Key struct {
	Resource schema.GroupVersionResource
	Name     string
}

// String names the object as kubectl does, including its group.
func (k Key) String() string { return k.Resource.GroupResource().String() + "/" + k.Name }

// Keys lists the objects of a kind.
func (v View) Keys(resource schema.GroupVersionResource) []Key {
	var keys []Key
	for key := range v.objects {
		if key.Resource == resource {
			keys = append(keys, key)
		}
	}
	return keys
}

// Get returns nil for an object that does not exist. The result must not be modified.
func (v View) Get(resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
	return v.objects[Key{resource, name}]
}

// Ready is a Converged function: the condition Ready is True for the object's current generation.
func Ready(resource schema.GroupVersionResource, name string) func(View) error {
	return func(v View) error {
		object := v.Get(resource, name)
		if object == nil {
			return fmt.Errorf("%s/%s does not exist", resource.Resource, name)
		}
		status, observed := readyOf(object)
		if status != "True" || observed != object.GetGeneration() {
			return fmt.Errorf("%s/%s: Ready=%q for generation %d of %d", resource.Resource, name, status, observed, object.GetGeneration())
		}
		return nil
	}
}

// readyOf returns the status of the Ready condition and status.observedGeneration.
func readyOf(object *unstructured.Unstructured) (status string, observed int64) {
	observed, _, _ = unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, entry := range conditions {
		if condition, ok := entry.(map[string]any); ok && condition["type"] == "Ready" {
			status, _ = condition["status"].(string)
		}
	}
	return status, observed
}
