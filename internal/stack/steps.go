package stack

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-dev/fettle/internal/conditions"
)

// State is the observed state of a component.
type State struct {
	// Exists is true if the main child object exists, or the Secret of an external server.
	Exists bool
	// Asked is true if the child objects were last written with the desired content, and the cache shows it.
	Asked bool
	// Ready is the state that the main child object reports of its current generation.
	Ready conditions.State
	// Trouble is true if the child object reports a problem, and not only work in progress.
	Trouble bool
	// Usable is true if dependants may start although Ready is not True: what they use of a component of kind AppConfig is there when it is
	// published. Otherwise AppConfig, which restarts its dependants itself, and a dependant that needs the new contents would wait for
	// each other.
	Usable bool
	// Failed is why a child object could not be written; nil if all were.
	Failed error
	// URL is the address of a WebApp, External whether it is published.
	URL      string
	External bool
}

// Available reports whether the components that depend on this one may be created or changed.
func (s *State) Available() bool {
	return s.Exists && s.Asked && s.Failed == nil && (s.Usable || s.Ready.Status == metav1.ConditionTrue)
}

// Step is what to do with a component.
type Step int

// Steps.
const (
	// Leave: nothing.
	Leave Step = iota
	// Wait: nothing, until another component is available.
	Wait
	// Apply: create, change or repair its objects.
	Apply
)

// Next returns what to do with c, and the component that it waits for. seen has the states of all that it depends on.
func Next(c *Component, asked bool, seen map[string]State) (step Step, waitsFor string) {
	if c.Suspended || c.Kind == KindExternal {
		return Leave, ""
	}
	for _, d := range c.DependsOn {
		s := seen[d]
		if s.Available() {
			continue
		}
		if asked {
			return Apply, "" // it has the desired version: only what others changed is repaired
		}
		return Wait, d
	}
	return Apply, ""
}

// Child is the main object of a component, as it exists.
type Child struct {
	Component, Kind string
	// DependsOn are the components that it depends on in the version that was written last.
	DependsOn []string
	// Replaced is true if the plan has a component of this name and another kind. It cannot exist before this one is deleted.
	Replaced bool
	Object   client.Object
}

// ChildOf describes a main object.
func ChildOf(kind string, obj client.Object) Child {
	c := Child{Component: obj.GetLabels()[LabelComponent], Kind: kind, Object: obj}
	if list := obj.GetAnnotations()[AnnotationDependsOn]; list != "" {
		c.DependsOn = strings.Split(list, ",")
	}
	return c
}

// Removed returns the children that have no component of their name and kind in the plan; all of them if it is nil.
func Removed(plan *Plan, children []Child) []Child {
	var removed []Child
	for _, child := range children {
		i := -1
		if plan != nil {
			i = slices.IndexFunc(plan.Components, func(c Component) bool { return c.Name == child.Component })
		}
		if child.Replaced = i >= 0; !child.Replaced || plan.Components[i].Kind != child.Kind {
			removed = append(removed, child)
		}
	}
	return removed
}

// DeletionTimeout is how long the deletion of a component may take before those that it depends on are deleted too.
const DeletionTimeout = time.Minute

// Deletable returns those of removed that can be deleted now: no other child depends on them, except for ones whose deletion takes longer
// than DeletionTimeout. children are all, removed ones included. next is when to look again although nothing happens; 0 for never.
func Deletable(removed, children []Child, now time.Time) (deletable []Child, next time.Duration) {
	pending := false
	for _, r := range removed {
		if r.Object.GetDeletionTimestamp() != nil {
			if left := r.Object.GetDeletionTimestamp().Add(DeletionTimeout).Sub(now); left > 0 {
				pending = true
				if next == 0 || left < next {
					next = left
				}
			}
			continue
		}
		if r.Replaced || !slices.ContainsFunc(children, func(c Child) bool { return c.needs(r, now) }) {
			deletable = append(deletable, r)
		}
	}
	if len(deletable) == 0 && !pending && allRemoved(removed, children) {
		// They depend on each other, by versions of different times.
		deletable = slices.DeleteFunc(slices.Clone(removed), func(r Child) bool { return r.Object.GetDeletionTimestamp() != nil })
	}
	return deletable, next
}

// needs reports whether c depends on other.
func (c Child) needs(other Child, now time.Time) bool {
	deleting := c.Object.GetDeletionTimestamp()
	return c.Component != other.Component && slices.Contains(c.DependsOn, other.Component) &&
		(deleting == nil || now.Before(deleting.Add(DeletionTimeout)))
}

// allRemoved reports whether no child outside removed depends on one of them.
func allRemoved(removed, children []Child) bool {
	return !slices.ContainsFunc(children, func(c Child) bool {
		if slices.ContainsFunc(removed, func(r Child) bool { return r.Kind == c.Kind && r.Component == c.Component }) {
			return false
		}
		return slices.ContainsFunc(removed, func(r Child) bool { return slices.Contains(c.DependsOn, r.Component) && r.Component != c.Component })
	})
}
