package stack

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
)

// usual are the dependencies of a component of this name that has no dependsOn.
var usual = map[string][]string{
	"backend":  {"database", "db", "cache", "config"},
	"frontend": {"backend"},
}

// dependencies returns the names of the components that each one depends on, sorted: those of dependsOn, or the usual ones, and those that
// it connects to.
func dependencies(components []platformv1.AppStackComponent) map[string][]string {
	all := map[string][]string{}
	for i := range components {
		all[components[i].Name] = nil
	}
	for i := range components {
		c := &components[i]
		deps := slices.Clone(c.DependsOn)
		if c.DependsOn == nil {
			deps = slices.Clone(usual[c.Name])
		}
		for _, n := range c.Connections {
			deps = append(deps, n.From)
		}
		deps = slices.DeleteFunc(deps, func(d string) bool {
			_, exists := all[d]
			return !exists || d == c.Name
		})
		slices.Sort(deps)
		all[c.Name] = slices.Compact(deps)
	}
	return all
}

// order returns the names so that each comes after its dependencies, otherwise as in the spec. If that is impossible, it returns the names
// of a cycle instead, beginning and ending with the same one.
func order(components []platformv1.AppStackComponent, deps map[string][]string) (names, cycle []string) {
	const visiting, done = 1, 2
	state := map[string]int{}
	var path []string
	var visit func(name string) bool
	visit = func(name string) bool {
		switch state[name] {
		case done:
			return true
		case visiting:
			cycle = append(slices.Clone(path[slices.Index(path, name):]), name)
			return false
		}
		state[name], path = visiting, append(path, name)
		for _, d := range deps[name] {
			if !visit(d) {
				return false
			}
		}
		state[name], path = done, path[:len(path)-1]
		names = append(names, name)
		return true
	}
	for i := range components {
		if !visit(components[i].Name) {
			return nil, cycle
		}
	}
	return names, nil
}

// graphErrors are about dependencies: unknown ones, which the schema rejects too, and cycles.
func graphErrors(spec *platformv1.AppStackSpec) (errs field.ErrorList) {
	known := map[string]bool{}
	for i := range spec.Components {
		known[spec.Components[i].Name] = true
	}
	at := field.NewPath("spec", "components")
	for i := range spec.Components {
		c := &spec.Components[i]
		for j, d := range c.DependsOn {
			if !known[d] || d == c.Name {
				errs = append(errs, field.Invalid(at.Key(c.Name).Child("dependsOn").Index(j), d, "must be the name of another component of this AppStack"))
			}
		}
		for j := range c.Connections {
			if from := c.Connections[j].From; !known[from] || from == c.Name {
				errs = append(errs, field.Invalid(at.Key(c.Name).Child("connections").Index(j).Child("from"), from, "must be the name of another component of this AppStack"))
			}
		}
	}
	if _, cycle := order(spec.Components, dependencies(spec.Components)); cycle != nil {
		errs = append(errs, field.Invalid(at.Key(cycle[0]).Child("dependsOn"), strings.Join(cycle, " -> "),
			"components depend on each other in a circle: remove one of these dependencies"))
	}
	return errs
}
