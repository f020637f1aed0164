// Package faults runs a controller against a real API server while requests fail, answers get lost, the controller
// crashes and its objects change behind its back: one fault a run (a plan), at every write that a fault-free run makes.
// Afterwards the world must look as if nothing had happened, and as much must have been created and deleted on the way.
//
// A Scenario says what controller to run and what a user does; Run does the rest. Nothing here knows a kind.
package faults

import (
	"context"
	"fmt"
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

// Scenario is a piece of an object's life that a controller must bring to its end whatever happens.
type Scenario struct {
	Name   string
	Scheme *runtime.Scheme
	// Setup registers the controllers, as the operator's main function does where it watches one namespace: the plan's.
	Setup func(mgr manager.Manager, namespace string) error
	// Cache is the operator's own cache configuration. The harness limits it to the plan's namespace.
	Cache cache.Options
	// NewCache makes the operator's cache; controller-runtime's own if nil.
	NewCache cache.NewCacheFunc
	// Primary is the kind that the controller is for, Children are the kinds that it may write.
	Primary  schema.GroupVersionResource
	Children []schema.GroupVersionResource
	// DataPlane asks for the fake of testenv, which reports Deployments as rolled out.
	DataPlane bool
	// Identity is whom the controller acts as, the operator by default.
	Identity *rest.Config
	Steps    []Step
	// Background starts what else lives in a plan's namespace, until ctx ends; the function that it returns waits for that end.
	Background func(ctx context.Context, namespace string) (wait func(), err error)
	Rules
}

// Rules are what holds of a scenario's kinds alone. Each may be left out.
type Rules struct {
	// Parallel is set where other scenarios run at the same time. Who starts them looks for leaks.
	Parallel bool
	// ConvergeTimeout is Options.Patience for this scenario.
	ConvergeTimeout time.Duration
	// Rotation is over how many days the plans are spread, where not all are asked for; 0 and 1 run all of them each day.
	Rotation int
	// SkipByDefault is true for plans that are left out unless all are asked for.
	SkipByDefault func(Plan) bool
	// Impossible is true for plans that make no sense, with the reason in a comment.
	Impossible func(Plan) bool
	// Normalize takes out of a copy of an object what differs from run to run, such as what is generated at random.
	Normalize func(Kind, *unstructured.Unstructured)
	// Unowned is true for objects that have no controller on purpose.
	Unowned func(Key) bool
	// DeletedWith are the objects that are deleted with one, and made again after it.
	DeletedWith func(View, Key) []Key
	// InvalidChange says what must not happen to an object from one version to the next.
	InvalidChange func(before, after *unstructured.Unstructured) error
	// History says what must not be in all that happened, unless someone else deleted or changed a child.
	History func([]event) error
}

// Step is something a user does, and what it must lead to.
type Step struct {
	Name string
	Do   func(context.Context, *Client) error
	// AfterRestart says that the user waits until the controller works, after a crash: of this it hears then, or never.
	AfterRestart bool
	// Converged is nil once the step has had its effect, or says what is missing. It sees no state older than Do.
	Converged func(View) error
}

// Client is what the user of a plan acts on.
type Client struct {
	client.Client
	Namespace string
	DataPlane *testenv.DataPlane // nil unless the scenario asked for it
}

// View is the state of a plan's namespace, as far as the scenario's kinds go.
type View struct {
	objects map[Key]*unstructured.Unstructured
	tidy    func(Kind, *unstructured.Unstructured)
}

// Key names an object within a plan's namespace.
type Key struct {
	Resource schema.GroupVersionResource
	Name     string
}

// String names the object as kubectl does, with its group if it has one.
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

// Get returns nil for an object that does not exist. The result must not be changed.
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
