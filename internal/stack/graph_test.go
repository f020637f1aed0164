package stack

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
)

// components makes components from texts such as "backend: db cache". A name alone has no dependsOn, "a:" an empty one.
func components(texts ...string) []platformv1.AppStackComponent {
	var all []platformv1.AppStackComponent
	for _, text := range texts {
		name, deps, set := strings.Cut(text, ":")
		c := platformv1.AppStackComponent{Name: name}
		if set {
			c.DependsOn = append([]string{}, strings.Fields(deps)...)
		}
		all = append(all, c)
	}
	return all
}

func TestDependencies(t *testing.T) {
	connected := components("web:", "db", "sessions")
	connected[0].Connections = []platformv1.Connection{{From: "sessions"}, {From: "db"}}
	for name, c := range map[string]struct {
		components []platformv1.AppStackComponent
		want       string
	}{
		"the order of a shop": {components("frontend", "backend", "cache", "db"), "map[backend:[cache db] cache:[] db:[] frontend:[backend]]"},
		"a shop without a cache": {
			components("database", "backend", "frontend"), "map[backend:[database] database:[] frontend:[backend]]",
		},
		"an empty list is none": {components("db", "backend:"), "map[backend:[] db:[]]"},
		"a list":                {components("db", "cache", "backend: cache"), "map[backend:[cache] cache:[] db:[]]"},
		"connections":           {connected, "map[db:[] sessions:[] web:[db sessions]]"},
		"repeated":              {components("db", "web: db db"), "map[db:[] web:[db]]"},
	} {
		if got := fmt.Sprint(dependencies(c.components)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestGraphErrors(t *testing.T) {
	connected := components("web:", "db: web")
	connected[0].Connections = []platformv1.Connection{{From: "db"}}
	missing := components("web")
	missing[0].Connections = []platformv1.Connection{{From: "db"}}
	for name, c := range map[string]struct {
		components []platformv1.AppStackComponent
		want       []string
	}{
		"fine":               {components("frontend", "backend", "db"), nil},
		"unknown":            {components("web: db"), []string{`spec.components[web].dependsOn[0]: Invalid value: "db"`}},
		"itself":             {components("web: web"), []string{`spec.components[web].dependsOn[0]: Invalid value: "web"`}},
		"unknown connection": {missing, []string{`spec.components[web].connections[0].from: Invalid value: "db"`}},
		"cycle of two":       {components("a: b", "b: a"), []string{`spec.components[a].dependsOn: Invalid value: "a -> b -> a"`}},
		"cycle behind others": {components("x: a", "a: b", "b: c", "c: b"), []string{
			`spec.components[b].dependsOn: Invalid value: "b -> c -> b"`,
		}},
		"a connection closes the cycle": {connected, []string{`"web -> db -> web"`}},
		"all errors at once":            {components("a: b x", "b: a y"), []string{`dependsOn[1]: Invalid value: "x"`, `dependsOn[1]: Invalid value: "y"`, `"a -> b -> a"`}},
	} {
		errs := graphErrors(&platformv1.AppStackSpec{Components: c.components})
		if len(errs) != len(c.want) {
			t.Errorf("%s: %v, want %d errors", name, errs, len(c.want))
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(errs[i].Error(), want) {
				t.Errorf("%s: %v, want %s", name, errs[i], want)
			}
		}
	}
}

// In any graph, either each component comes after its dependencies, or there is a cycle of dependencies.
func TestOrder_properties(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	cycles := 0
	for range 3000 {
		n := 1 + rng.IntN(8)
		var texts []string
		for i := range n {
			text := fmt.Sprintf("c%d:", i)
			for range rng.IntN(3) {
				text += fmt.Sprintf(" c%d", rng.IntN(n))
			}
			texts = append(texts, text)
		}
		all := components(texts...)
		deps := dependencies(all)
		names, cycle := order(all, deps)
		switch {
		case cycle == nil && !inOrder(names, deps):
			t.Fatalf("%v: order %v", texts, names)
		case cycle != nil && !isCycle(cycle, deps):
			t.Fatalf("%v: %v is no cycle", texts, cycle)
		case cycle != nil:
			cycles++
		}
	}
	if cycles < 100 || cycles > 2900 {
		t.Errorf("%d of 3000 graphs have a cycle", cycles)
	}
}

func inOrder(names []string, deps map[string][]string) bool {
	for i, name := range names {
		if slices.ContainsFunc(deps[name], func(d string) bool { return !slices.Contains(names[:i], d) }) {
			return false
		}
	}
	return len(names) == len(deps)
}

func isCycle(cycle []string, deps map[string][]string) bool {
	for i := range len(cycle) - 1 {
		if !slices.Contains(deps[cycle[i]], cycle[i+1]) {
			return false
		}
	}
	return len(cycle) > 2 && cycle[0] == cycle[len(cycle)-1]
}
